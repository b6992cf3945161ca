"""Keys measure the lessons of a round with a model: once each, and never their own."""

import json
from pathlib import Path

import pytest

from tests.gym.cli.conftest import Call, call
from tests.gym.cli.test_lesson_rounds_json import fields, named
from tests.gym.experience.causal import FAMILIES, TRUE
from tests.gym.experience.conftest import Served, served, write_tasks
from tests.gym.rounds.lessons.world import GIL, GUS, World, manifest_of
from tests.gym.rounds.protocol.people import ALICE, LOG
from zoo.gym.rounds.lessons.measuring import public_name
from zoo.gym.rounds.lessons.result import publish_lessons
from zoo.gym.rounds.session.writing import take
from zoo.gym.signing import OwnKey
from zoo.gym.signing.keys import own_key

__all__ = ["call", "served"]

RIGHT = [f"For family-{f} use strategy-{TRUE[f]}" for f in range(FAMILIES)]
WRONG = f"For family-3 use strategy-{(TRUE[3] + 1) % 5}"
QUICK = ("--reward", "exact", "--max-new-tokens", "16")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnKey:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return own_key()


@pytest.fixture
def world(mine: OwnKey, tmp_path: Path, call: Call) -> World:
    """A round of two lessons of others and one of the user, whose key measures."""
    del call
    found = World(tmp_path, manifest_of(gates=(mine, GUS, GIL)))
    found.contribute(ALICE, RIGHT[0], WRONG)
    found.contribute(mine, RIGHT[1])
    found.reveal()
    return found


def words(world: World, served: Served, *more: str) -> tuple[str, ...]:
    named = ("--round", str(world.storage.folder), "--model", served.model)
    return ("round", "measure", *more, *named, *QUICK, "--json")


@pytest.mark.slow
def test_lessons_are_measured_with_a_model_and_kept(
    world: World, served: Served, call: Call
) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 96))
    found = call(*words(world, served, tasks, "--send"))
    assert (found.code, found.json["records"], found.json["sent"]) == (0, 2, True), found.stderr
    assert fields(found.json) == named("round measure")[0]
    assert f"not measured, it is yours: {RIGHT[1]}" in found.stderr
    assert len(served.server.requests) == (1 + 2) * 96 * 2
    take(world.storage, LOG)
    world.measure({RIGHT[0]: 0.05, WRONG: -0.01}, [GUS, GIL])
    assert publish_lessons(world.storage, LOG).kept == 1
    assert world.why()[RIGHT[0]] == ""


@pytest.mark.slow
def test_measurements_are_kept_until_they_are_sent(
    world: World, served: Served, call: Call
) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 24))
    before = world.storage.names("inbox")
    found = call(*words(world, served, tasks))
    assert (found.code, found.json["records"], found.json["sent"]) == (4, 2, False), found.stderr
    assert world.storage.names("inbox") == before
    asked = len(served.server.requests)
    found = call(*words(world, served, tasks, "--send"))
    assert (found.json["records"], found.json["sent"], found.json["left"]) == (2, True, 0)
    assert "all lessons were measured before" in found.stderr
    assert len(served.server.requests) == asked
    record = next(
        json.loads(world.storage.read(name) or b"")
        for name in world.storage.names("inbox")
        if name not in before
    )
    assert record["body"]["values"].keys() == {
        "item",
        "text",
        "model",
        "tasks",
        "effect",
        "low",
        "high",
    }
    assert (record["body"]["values"]["model"], record["body"]["values"]["tasks"]) == ("world", 24)


@pytest.mark.slow
def test_too_few_tasks_sign_nothing(world: World, served: Served, call: Call) -> None:
    tasks = str(write_tasks(Path("own.jsonl"), 5))
    before = world.storage.names("inbox")
    found = call(*words(world, served, tasks, "--send"))
    assert (found.code, "expected at least 6 different ones" in found.stderr) == (2, True)
    assert world.storage.names("inbox") == before


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("http://10.0.0.7:8000/v1#llama", "llama"),
        ("https://user:secret@host/v1", "v1"),
        ("/home/ann/models/llama/", "llama"),
        ("~/models/llama", "llama"),
        ("C:\\models\\llama", "llama"),
        ("deepseek/deepseek-chat", "deepseek/deepseek-chat"),
        ("zen-nano", "zen-nano"),
        ("m\u00e4rz", "m?rz"),
        ("///", "?"),
    ],
)
def test_of_a_model_its_name_alone_leaves(model: str, said: str) -> None:
    assert public_name(model) == said
