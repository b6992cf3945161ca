"""`zoo-gym round` about lessons, from its terms to a library, by people with homes of their own."""

import socket
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.cli.conftest import write_model
from tests.gym.http_guard.toy import running
from zoo.gym import Trainer, TrainingConfig
from zoo.gym.client import Client
from zoo.gym.config import load_config
from zoo.gym.experience import store
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.sharing.measurement import Measurement, write_measurements
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.run import CommunityLearningServer, server_config
from zoo.gym.signing import OwnKey, own_key

Call = Callable[..., Any]

UNITS, SIGN, IDLE = "Check the units of each number.", "Check the sign at the end.", "Think twice."
SALES = "Round prices to whole cents at the end."
BY = {"ann": (UNITS, IDLE), "ben": (SIGN, SALES)}
GAINS = {UNITS: 0.2, SIGN: 0.1, IDLE: -0.05, SALES: 0.3}
"""What all gates measure of each lesson; of SALES one sees clear harm."""


class People:
    """Runs commands as one of several people.

    Attributes:
        gates: the keys of gates, as text.
    """

    def __init__(self, call: Call, homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._call, self._homes, self._monkeypatch = call, homes, monkeypatch
        self.gates = {who: str(self.key(who).public) for who in ("gus", "gil", "guy")}
        for who, texts in BY.items():
            self.at_home(who)
            items = tuple(Item(text, step=1, sources=("0" * 16,)) for text in texts)
            store.save("mine", Library(items, "m", evidence={"verdict": "unproven"}))

    def at_home(self, who: str) -> None:
        self._monkeypatch.setenv("ZOO_GYM_HOME", str(self._homes / who))

    def key(self, who: str) -> OwnKey:
        self.at_home(who)
        return own_key()

    def __call__(self, who: str, *words: str, stdin: str = "") -> Any:
        self.at_home(who)
        return self._call(*words, stdin=stdin)


@pytest.fixture
def people(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> People:
    return People(call, tmp_path / "homes", monkeypatch)


def started(people: People, *more: str, place: str = "round") -> None:
    words = ["--kind", "experience", "--base", "m", "--out", place, "--min-contributors", "2"]
    for key in people.gates.values():
        words += ["--gate", key]
    found = people("maker", "round", "create", "tiny", *words, *more, "--json")
    assert (found.code, found.json["phase"], found.json["kind"]) == (0, "commit", "experience")


@pytest.mark.slow
def test_a_key_that_measures_reads_that_its_own_lessons_cannot_be_kept(people: People) -> None:
    words = ("--kind", "experience", "--base", "m", "--min-contributors", "2")
    gates = [str(people.key(who).public) for who in ("ann", "ben")]
    both = ("--gate", gates[0], "--gate", gates[1])
    first = people("maker", "round", "create", "tiny", *words, "--out", "round", *both)
    assert "that a key of --gate contributes cannot be kept" in first.stderr
    found = people("ann", "round", "contribute", "mine", "--round", "round")
    assert "1 of at least 2 keys can measure yours, so that none is kept" in found.stderr
    more = (*words, "--out", "new", *both, "--gate", people.gates["gus"])
    three = people("maker", "round", "create", "other", *more)
    assert (three.code, "cannot be kept" in three.stderr) == (0, False)
    found = people("ann", "round", "contribute", "mine", "--round", "new")
    assert (found.code, "none is kept" in found.stderr) == (0, False)


def revealed(people: People, place: str = "round") -> None:
    """Two contribute, and reveal."""
    for who in BY:
        found = people(who, "round", "contribute", "mine", "--round", place, "--send", "--json")
        assert found.json["receipt"].startswith("inbox/"), found.stderr
    assert people("maker", "round", "take", "--close", "--json").json["phase"] == "reveal"
    for who in BY:
        assert people(who, "round", "reveal", "--send", "--json").json["receipt"]
    assert people("maker", "round", "take", "--close", "--json").json["phase"] == "compute"


def figures(text: str, effect: float, model: str = "http://127.0.0.1:8000/v1#m") -> Measurement:
    """Returns a measurement whose interval is clear if the effect is beyond .15."""
    return Measurement(text, model, 24, effect, effect - 0.15, effect + 0.15)


def measured(people: People, who: str, found: Iterable[Measurement], place: str = "round") -> Any:
    write_measurements(Path(f"{who}.jsonl"), found, people.key(who))
    words = ("--measured", f"{who}.jsonl", "--round", place, "--send", "--json")
    return people(who, "round", "measure", *words)


def all_measured(people: People, place: str = "round") -> None:
    for who in people.gates:
        seen = {**GAINS, SALES: -0.2} if who == "gil" else GAINS
        found = measured(people, who, [figures(*one) for one in seen.items()], place)
        assert (found.code, found.json["sent"], found.json["records"]) == (0, True, 4)


def published(people: People) -> Any:
    started(people)
    revealed(people)
    all_measured(people)
    found = people("maker", "round", "aggregate", "--json")
    assert found.code == 0, found.stderr
    return found.json


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Returns the addresses that anything wants to reach from now on, which it cannot."""
    asked: list[object] = []

    def refuse(_: socket.socket, address: object) -> None:
        asked.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "sendto", refuse)
    return asked


@pytest.mark.slow
def test_a_round_of_lessons_ends_in_a_library_that_a_stranger_verifies(
    people: People, no_network: list[object]
) -> None:
    result = published(people)
    library = read_library(Path(result["result"]))[0]
    assert {item.text: item.evidence["effect"] for item in library.items} == {UNITS: 0.2, SIGN: 0.1}
    assert {item.evidence["keys"] for item in library.items} == {3}
    why = {one["id"]: one["why"] for one in result["lessons"]}
    assert why[Item(IDLE).id] == "a median effect of -0.050"
    assert why[Item(SALES).id] == f"harmful by the measurement of {people.gates['gil']}"

    found = people("eve", "round", "verify", "round", "--json")
    assert (found.code, found.json["passed"], found.json["recomputed"]) == (0, True, True)
    points = people("eve", "round", "rewards", "round", "--json").json
    ann, ben = (str(people.key(who).public) for who in BY)
    assert (points["rule"], points["rewards"]) == ("effect", {ann: 667, ben: 333})
    assert no_network == []


def files(folder: str = "round") -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


@pytest.mark.slow
def test_lessons_are_applied_as_far_as_the_keys_that_measured_are_trusted(people: People) -> None:
    published(people)
    people.at_home("eve")
    store.save("tiny", Library((Item("Mine.", step=1),)))
    words = ("round", "apply", "round", "--json")
    refused = people("eve", *words)
    assert (refused.code, store.current("tiny")) == (2, 1)
    said = "tiny: expected a name that is free, or that of a library from this round, got that of "
    assert f"{said}another one: tiny@1, 1 lesson, which" in refused.stderr, refused.stderr
    assert "zoo-gym round apply tiny --name tiny; otherwise" in refused.stderr
    found = people("eve", *words, "--name", "tiny")
    assert (found.code, found.json["believed"], found.json["previous"]) == (0, 0, 1), found.stderr
    assert "zoo-gym experience rollback tiny 1" in found.stderr
    kept = store.load("tiny").library
    assert {item.text for item in kept.items if item.is_foreign} == {UNITS, SIGN}
    assert {item.author for item in kept.items} == {""}

    for who in ("gus", "gil"):
        people("eve", "keys", "trust", who, people.gates[who])
    people("eve", "keys", "trust", "ann", str(people.key("ann").public))
    found = people("eve", *words)
    assert (found.json["believed"], found.json["name"], found.json["version"]) == (2, "tiny", 3)
    kept = store.load("tiny").library
    assert not any(item.is_foreign for item in kept.items)
    authors = {item.text: item.author for item in kept.items}
    assert authors == {UNITS: str(people.key("ann").public), SIGN: ""}
    people.at_home("eve")
    assert people("eve", *words).json["version"] == 3, "a second time changes nothing"
    people("eve", "experience", "pin", "tiny", Item(UNITS).id)
    found = people("eve", *words)
    assert (found.code, found.json["version"]) == (0, 5), "what was made of the result is replaced"
    assert people("eve", *words, "--name", "shared").json["name"] == "shared"
    undone = people("eve", "round", "undo", "tiny")
    assert (undone.code, "experience rollback tiny VERSION" in undone.stderr) == (2, True)


@pytest.mark.slow
def test_an_altered_round_is_not_applied(people: People) -> None:
    result = published(people)
    chunk = Path("round/chunks", result["digest"][:2], result["digest"])
    chunk.write_bytes(chunk.read_bytes().replace(b"units", b"unitz"))
    found = people("eve", "round", "apply", "round")
    assert (found.code, "got a failed check: published files" in found.stderr) == (2, True)
    assert "FAILED      published files" in people("eve", "round", "verify", "round").stdout
    assert store.names() == []


@pytest.mark.slow
def test_what_was_sent_before_has_its_receipt(people: People) -> None:
    started(people)
    words = ("round", "contribute", "mine", "--round", "round", "--json")
    sent = people("ann", *words, "--send").json["receipt"]
    before = files()
    again = people("ann", *words)
    assert (again.code, again.json["receipt"], files()) == (0, sent, before)
    assert "committed before in" in again.stderr


@pytest.mark.slow
def test_nothing_leaves_without_send(people: People) -> None:
    started(people)
    before = files()
    found = people("ann", "round", "contribute", "mine", "--round", "round", "--json")
    assert (found.code, found.json["receipt"], "nothing was sent" in found.stderr) == (
        0,
        None,
        True,
    )
    assert files() == before
    revealed(people)
    write_measurements(Path("gus.jsonl"), [figures(UNITS, 0.2)], people.key("gus"))
    before = files()
    words = ("round", "measure", "--measured", "gus.jsonl", "--round", "round", "--json")
    found = people("gus", *words)
    assert (found.code, found.json["records"], found.json["sent"]) == (4, 1, False)
    assert "expected your consent, because 1 signed record (lesson, model, numb" in found.stderr
    assert "nothing was sent, and what was measured is kept; agree with --send" in found.stderr
    assert files() == before


@pytest.mark.slow
def test_what_leaves_says_nothing_of_sources_addresses_and_tasks(people: People) -> None:
    published(people)
    everything = b"".join(files().values())
    for secret in (b"0" * 16 + b'"]', b"127.0.0.1", b"proven", b"http:"):
        assert secret not in everything
    assert b'"model":"m"' in everything


@pytest.mark.slow
def test_measurements_that_are_sent_again_change_nothing(people: People) -> None:
    started(people)
    revealed(people)
    all_measured(people)
    before = files()
    seen = [figures(*one) for one in GAINS.items()]
    again = measured(people, "gus", [*seen, figures("Nobody contributed this.", 0.5)])
    assert (again.code, again.json["records"], again.json["sent"]) == (0, 0, False)
    assert files() == before


@pytest.mark.slow
def test_of_measurements_of_one_lesson_clear_harm_is_sent_else_that_of_most_tasks(
    people: People,
) -> None:
    started(people)
    revealed(people)
    more = Measurement(UNITS, "m", 48, 0.1, 0.0, 0.2)
    harm = Measurement(SIGN, "m", 12, -0.4, -0.5, -0.3)
    found = [more, figures(UNITS, 0.4), figures(SIGN, 0.4), harm]
    assert measured(people, "gus", found).json["records"] == 2
    left = b"".join(files("round/inbox").values())
    assert b'"effect":0.1' in left
    assert b'"effect":-0.4' in left
    assert b'"effect":0.4' not in left


@pytest.mark.slow
def test_a_round_that_keeps_nothing_says_why_and_is_void(people: People) -> None:
    started(people)
    revealed(people)
    for who in ("gus", "gil"):
        measured(people, who, [figures(UNITS, -0.05)])
    found = people("maker", "round", "aggregate", "--json")
    assert (found.code, "3 keys of role gate have not measured all of 4" in found.stderr) == (
        2,
        True,
    )
    found = people("maker", "round", "aggregate", "--force", "--json")
    assert (found.code, found.json["kept"]) == (1, 0)
    assert "round tiny is void: no lesson is kept" in found.stderr
    shown = people("eve", "round", "show", "round", "--json").json
    assert (shown["phase"], shown["kind"], shown["result"]) == ("void", "experience", None)
    assert people("eve", "round", "list", "--json").json["rounds"][0]["kind"] == "experience"
    checked = people("eve", "round", "verify", "round")
    assert "ok          kept lessons: none of 4 lessons" in checked.stdout
    apply = people("eve", "round", "apply", "round")
    assert (apply.code, "expected a published result, got void" in apply.stderr) == (4, True)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[CommunityLearningServer]:
    """Run by the maker."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "homes" / "maker"))
    config = server_config({"folder": tmp_path / "served", "port": 0})
    with running(CommunityLearningServer(None, config)) as found:
        yield found


@pytest.mark.slow
def test_a_round_of_lessons_on_a_server_has_what_was_sent_and_no_more(
    people: People, server: CommunityLearningServer
) -> None:
    for who in ("ann", "ben", *people.gates, "eve"):
        given = f"{server.tokens[Role.CONTRIBUTOR]}\n"
        assert people(who, "round", "token", server.url, stdin=given).code == 0
    place = f"{server.url}/rounds/tiny"
    started(people, place=place)
    before = files("served")
    for who in BY:
        people(who, "round", "contribute", "mine", "--round", place)
    assert files("served") == before
    revealed(people, place)
    before = files("served")
    write_measurements(Path("own.jsonl"), [figures(UNITS, 0.2)], people.key("gus"))
    people("gus", "round", "measure", "--measured", "own.jsonl", "--round", place)
    assert files("served") == before
    all_measured(people, place)
    digest = people("maker", "round", "aggregate", "--json").json["digest"]
    for where in (place, "served/tiny"):
        found = people("eve", "round", "verify", where, "--json")
        assert (found.code, found.json["passed"]) == (0, True), found.stdout
        assert people("eve", "round", "show", where, "--json").json["result"] == digest


@pytest.mark.slow
def test_python_refuses_a_round_of_lessons_where_weights_are_meant(people: People) -> None:
    published(people)
    write_model(Path("base").resolve(), seed=1)
    said = "expected a round of changes of weights, got tiny, which combines lessons"
    with raises("rounds.other_kind", f"apply to a model: {said}"):
        Trainer(TrainingConfig(model="base", algorithm="sft")).apply_deltasoup("round")
    with raises("rounds.other_kind", f"Client: {said}"):
        Client(node_url="round").contribute_improvement("ann", "m", improvement_data="base")
    with raises("rounds.other_kind", f"Client: {said}"):
        Client(node_url="round").aggregate_community_improvements("m", 1)
    with raises("rounds.other_kind", f"round: {said}"):
        load_config([], ["round=round", "dataset=x.jsonl"], {})
