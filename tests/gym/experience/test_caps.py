"""Caps of runs of lessons: which one is reached, and what a resume may change."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import chat_server
from tests.gym.experience.conftest import Call, Served, write_tasks
from zoo.backends.openai.failure import failure
from zoo.backends.openai.retry import NOT_RUNNING
from zoo.gym.errors import GymError, InterruptedRunError, NotAvailableError
from zoo.gym.experience import store
from zoo.gym.experience.calls.budget import Budget, Cap, CapReachedError
from zoo.gym.experience.calls.journal import Spent
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.providers.table import change_provider
from zoo.gym.jobs import Run, open_run

pytestmark = pytest.mark.usefixtures("near")

TINY = ("--reward", "exact", "--max-new-tokens", "16", "--max-epochs", "1", "--group-size", "2")


def contents(run: Run) -> dict[str, bytes]:
    """Returns what a resume may change."""
    files = (run.env_file, run.config_file, run.events.path, run.folder / "journal.jsonl")
    return {path.name: path.read_bytes() for path in files if path.exists()}


def test_a_server_that_is_not_there_makes_no_run(call: Call) -> None:
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    result = call("experience", "train", tasks, "--model", "http://127.0.0.1:9/v1#m", *TINY)
    assert (result.code, "cannot be reached" in result.stderr) == (4, True)
    assert call("runs", "list", "--json").json["runs"] == []


@pytest.mark.slow
def test_a_run_refuses_another_server_of_the_same_name(call: Call, served: Served) -> None:
    change_provider("mine", {"url": served.server.url})
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    result = call("experience", "train", tasks, "--model", "mine/m", *TINY, "--max-tokens", "900")
    assert result.code == 5, result.stderr
    asked = len(served.server.requests)
    change_provider("mine", {"url": "https://192.0.2.2:8443/v1"})
    result = call("runs", "resume", "last", "--set", "max_tokens=90000")
    assert "mine/m: expected the server that the run began with" in result.stderr
    assert len(served.server.requests) == asked


@pytest.mark.parametrize(
    ("error", "said", "not_said"),
    [
        (NotAvailableError("gone", hint=NOT_RUNNING), "runs resume r0001", "start again"),
        (failure(404, {}, "no", "m", frozenset()), "start again with a model", "runs resume"),
    ],
    ids=["gone", "no such model"],
)
def test_a_hint_leads_to_what_helps(
    error: GymError,
    said: str,
    not_said: str,
    call: Call,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("zoo.gym.experience.session.learn", failed)
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    result = call("experience", "train", tasks, "--model", served.model, *TINY)
    assert (result.code, said in result.stderr, not_said in result.stderr) == (4, True, False)


@pytest.mark.parametrize(
    ("cap", "setting"),
    [
        (Cap(tokens=100), "max_tokens"),
        (Cap(usd=1.0), "max_usd"),
        (Cap(usd=9.0, tokens=100), "max_tokens"),
        (Cap(usd=1.0, tokens=999), "max_usd"),
    ],
    ids=str,
)
def test_the_hint_names_the_cap_that_is_reached(cap: Cap, setting: str) -> None:
    with pytest.raises(CapReachedError) as caught:
        Budget(cap).reserve(Spent(1, 150, 0, 50, usd=2.0))
    assert f"--set {setting}=..." in str(caught.value.hint)


@pytest.mark.slow
def test_a_refused_change_leaves_a_run_of_lessons_as_it_was(call: Call, served: Served) -> None:
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    words = ("experience", "train", tasks, "--model", served.model, *TINY)
    result = call(*words, "--max-tokens", "1000")
    assert (result.code, "resume last" in result.stderr) == (5, False)
    assert f"runs resume {open_run('last').id} --set max_tokens=" in result.stderr
    before = contents(open_run("last"))
    for change in ("max_usd=3", "max_tokens=-1", "max_tokens=x", "max_tokens=", "seed=3"):
        assert call("runs", "resume", "last", "--set", change).code == 2
        assert contents(open_run("last")) == before
    twice = ("--set", "max_tokens=2000", "--set", "max_tokens=3000")
    assert call("runs", "resume", "last", *twice).code == 2
    assert contents(open_run("last")) == before
    result = call("runs", "resume", "last", "--set", "max_tokens=200000")
    assert result.code == 0
    assert "answers so far are read from the journal" in result.stderr
    assert "trained again" not in result.stderr


@pytest.mark.nightly
def test_a_capped_distillation_continues_with_a_higher_cap(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: Run) -> None:
        raise InterruptedRunError("before the training")

    monkeypatch.setattr("zoo.gym.experience.distilling.session._train", stopped)
    store.save("words", Library((Item("Answer in one word."),), "zen-pico"))
    rows = [{"prompt": f"say {n}", "answer": "good"} for n in range(12)]
    Path("tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def respond(body: Any, number: int) -> str:
        return "good" if number % 2 else "no"

    with chat_server(respond) as server:
        words = ("words", "tasks.jsonl", "--model", "zen-pico", "--reward", "exact")
        more = ("--max-new-tokens", "4", "--teacher", f"{server.url}#m")
        result = call("experience", "distill", *words, *more, "--max-tokens", "600", "max_steps=1")
        assert (result.code, "runs resume r0001 --set max_tokens=" in result.stderr) == (5, True)
        before = contents(open_run("last"))
        for change in ("max_usd=3", "max_tokens=0", "max_steps=0", "lora_rank=3"):
            also = ("--set", "max_tokens=90000") if "max_t" not in change else ()
            assert call("runs", "resume", "last", *also, "--set", change).code == 2
            assert contents(open_run("last")) == before
        resumed = call("runs", "resume", "last", "--set", "max_tokens=90000", "--json")
    assert (resumed.code, "before the training" in resumed.stderr) == (5, True)
    assert open_run("last").rows_file.is_file()


def test_a_cap_of_a_distillation_without_a_teacher_is_refused(call: Call) -> None:
    store.save("words", Library((Item("Answer in one word."),), "zen-pico"))
    tasks = str(write_tasks(Path("sums.jsonl"), 12))
    words = ("experience", "distill", "words", tasks, "--model", "zen-pico", "--reward", "exact")
    result = call(*words, "--max-tokens", "900")
    assert (result.code, "max_tokens: has no effect without --teacher" in result.stderr) == (
        2,
        True,
    )
