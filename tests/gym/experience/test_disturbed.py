"""Runs that are disturbed: by servers, kills, and answers in any order. The library is the same."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from traceback import format_exception
from typing import Any, cast

import pytest

from tests.chat_server import Body, Odd
from tests.gym.experience.causal import Follows, World, lesson, split_of, tasks
from tests.gym.experience.conftest import Call, Served, ignore, write_tasks
from tests.night import one_in
from zoo.backends.openai import retry
from zoo.backends.openai.failure import TryAgainError
from zoo.backends.openai.reply import Reply
from zoo.backends.sampling import Sampling
from zoo.gym.experience.calls.budget import Budget, Cap
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.calls.journal import Journal
from zoo.gym.experience.learning.learn import learn
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.library.library import Library
from zoo.gym.jobs import open_run

TINY = ("--max-epochs", "1", "--group-size", "3", "--gate-draws", "1", "--test-draws", "1")
QUICK = ("--reward", "exact", "--max-new-tokens", "16", "--teacher-max-new-tokens", "64")


class KilledError(BaseException):
    """Stands for a kill: nothing catches it."""


class Shaky(World):
    """A world whose answers come late, fail, or end the process, as a schedule has it."""

    def __init__(self, seed: int, kill_after: int) -> None:
        super().__init__()
        self.rng, self.left = random.Random(seed), kill_after
        self.lock = threading.Lock()

    def attempt(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: Sampling,
        *,
        schema: Mapping[str, object] | None = None,
        seed: int | None = None,
    ) -> Reply:
        with self.lock:
            self.left -= 1
            late, fate = self.rng.random() * 0.002, self.rng.random()
        if self.left < 0:
            raise KilledError
        time.sleep(late)
        if fate < 0.05:
            raise TryAgainError("cut", wait_s=0.0, billed=True)
        return super().attempt(messages, sampling, schema=schema, seed=seed)


SMALL_SPLIT = Split(split_of().train[:16], tasks(12, 1000), tasks(6, 9000))


def learned(world: World, path: Path, at_once: int) -> Library:
    journal = Journal(path)
    try:
        caller = Caller(journal, Budget(Cap(), journal.spent))
        model = Model("world", world, None, at_once)
        how = lesson(max_epochs=2, group_size=4, test_draws=1)
        return learn(SMALL_SPLIT, caller, model, model, Follows(), how).library
    finally:
        journal.close()


def check_schedule(seed: int, path: Path, undisturbed: Library) -> None:
    rng = random.Random(seed)
    for _ in range(99):
        world = Shaky(rng.randrange(10**9), rng.randrange(20, 200))
        try:
            found = learned(world, path, rng.choice([1, 2, 8]))
        except KilledError:
            continue
        assert found == undisturbed
        return
    raise AssertionError("the run made no progress")


@pytest.fixture
def undisturbed(tmp_path: Path) -> Library:
    found = learned(World(), tmp_path / "undisturbed", 1)
    assert found.items
    assert found.evidence
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
def test_a_run_in_any_order_with_any_kills_learns_the_same(
    seed: int, tmp_path: Path, undisturbed: Library
) -> None:
    check_schedule(seed, tmp_path / "j", undisturbed)


@pytest.mark.nightly
def test_two_hundred_schedules_learn_the_same(
    tmp_path: Path, undisturbed: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", ignore)  # no power is cut here, and disks are slow
    for seed in range(200):
        check_schedule(1000 + seed, tmp_path / f"{seed}", undisturbed)


def error(message: str = "no", **fields: object) -> str:
    return json.dumps({"error": {"message": message, **fields}})


def every(count: int, odd: Odd) -> Callable[[Body, int], Odd | None]:
    return lambda _, number: odd if number % count == count - 1 else None


def teacher(*texts: str) -> Callable[[Body, int], Odd | None]:
    """Answers some of the teacher's calls with a text."""

    def odd(body: Body, number: int) -> Odd | None:
        is_teacher = body["messages"][0]["content"].startswith("You improve")
        return Odd(text=texts[number % len(texts)]) if is_teacher and number % 5 < 2 else None

    return odd


THE_SAME = {
    "429": every(6, Odd(429, error(), headers={"Retry-After": "0"})),
    "429 in the body": every(6, Odd(429, error("try again in 10ms"))),
    "429 in milliseconds": every(6, Odd(429, "", headers={"Retry-After-Ms": "5"})),
    "408": every(6, Odd(408, "")),
    "500": every(6, Odd(500, error("boom"))),
    "502 in HTML": every(6, Odd(502, "<h1>bad gateway</h1>", content_type="text/html")),
    "503 with a wait": every(6, Odd(503, "", headers={"Retry-After": "0.01"})),
    "529": every(6, Odd(529, error("overloaded"))),
    "a reset": every(6, Odd(reset=True)),
    "a cut stream": every(6, Odd(text="used strategy-1", cut=90)),
    "no finish reason": every(6, Odd(text="used strategy-1", finish=None)),
    "HTML in 200": every(6, Odd(body="<html>hello</html>", content_type="text/html")),
    "an empty body": every(6, Odd(body="")),
    "no JSON": every(6, Odd(body="{'a': 1}")),
    "an error in 200": every(6, Odd(body=error("overloaded", code=503))),
    "an error in the stream": every(
        6, Odd(body=f"data: {error('lost')}\n\n", content_type="text/event-stream")
    ),
    "a list for an object": every(6, Odd(body="[1, 2]")),
    "no choices": every(6, Odd(body='{"choices": [], "usage": {}}')),
    "a huge body": every(60, Odd(body="x" * 17_000_000)),
    "deep JSON": every(30, Odd(body="[" * 200_000)),
}
"""What passes: the library is that of an undisturbed run."""

A_SENTENCE = {
    "401": (every(9, Odd(401, error("bad key"))), 4),
    "403": (every(9, Odd(403, error())), 4),
    "404": (every(9, Odd(404, error("no such model"))), 4),
    "402": (every(9, Odd(402, error("add credit"))), 5),
    "a spent quota": (every(9, Odd(429, error("x", code="insufficient_quota"))), 5),
    "a wait of hours": (every(9, Odd(429, "", headers={"Retry-After": "9999"})), 5),
    "always 500": (every(1, Odd(500, error("boom"))), 5),
    "a redirect": (every(9, Odd(302, "", headers={"Location": "http://127.0.0.1:9/"})), 4),
    "a refused request": (every(9, Odd(400, error("we do not like it"))), 2),
}
"""What does not: a park, or a sentence; the answers stay, and a resume finishes the run."""

NO_LESSONS = {
    "refusals": teacher("I cannot help with that."),
    "thinking": teacher('<think>{"edits": []}</think>no', "<think>endless"),
    "huge JSON": teacher(json.dumps({"edits": [{"op": "add", "text": "w " * 50_000}]})),
    "orders": teacher(json.dumps({"edits": [{"op": "delete", "ids": ["ffffff"]}] * 500})),
}
"""Odd answers of a teacher: they are refused, and the run ends."""


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.0)


def train(call: Call, served: Served, *more: str) -> tuple[int, dict[str, Any], str]:
    file = write_tasks(Path("sums.jsonl"), 64)
    words = ("experience", "train", str(file), "--model", served.model, *QUICK, *TINY, *more)
    result = call(*words, "--json")
    assert "Traceback" not in result.stderr
    return result.code, result.json, result.stderr


def check_passes(call: Call, served: Served, odd: Callable[[Body, int], Odd | None]) -> None:
    served.odd = odd
    _, disturbed, _ = train(call, served)
    served.odd = lambda _, __: None
    _, clean, _ = train(call, served)
    assert disturbed["digest"] == clean["digest"] is not None
    assert clean["verdict"] != "nothing kept"


QUICKLY = ("a cut stream",)


@pytest.mark.usefixtures("near", "no_waits")
@pytest.mark.parametrize("name", QUICKLY)
@pytest.mark.slow
def test_a_server_that_stumbles_changes_nothing(name: str, call: Call, served: Served) -> None:
    check_passes(call, served, THE_SAME[name])


@pytest.mark.slow
@pytest.mark.usefixtures("near", "no_waits")
@pytest.mark.parametrize("name", one_in(4, [name for name in THE_SAME if name not in QUICKLY]))
def test_a_server_that_stumbles_otherwise_changes_nothing(
    name: str, call: Call, served: Served
) -> None:
    check_passes(call, served, THE_SAME[name])


@pytest.mark.slow
@pytest.mark.usefixtures("near", "no_waits")
@pytest.mark.parametrize(("odd", "code"), A_SENTENCE.values(), ids=A_SENTENCE)
def test_a_refusal_of_a_server_is_reported_and_answers_stay(
    odd: Callable[[Body, int], Odd | None], code: int, call: Call, served: Served
) -> None:
    served.odd = odd
    got, answer, stderr = train(call, served)
    assert (got, answer["digest"]) == (code, None), stderr
    log = open_run("last").folder / "worker.log"
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("near", "no_waits")
def test_a_task_that_is_too_long_has_no_reward_and_ends_no_run(call: Call, served: Served) -> None:
    too_long = Odd(400, error("maximum context length is 9 tokens"))
    served.odd = lambda body, _: too_long if "item-0" in body["messages"][-1]["content"] else None
    code, answer, stderr = train(call, served)
    assert (code, answer["state"]) == (0, "done"), stderr
    assert "no answer, and so no reward: " in stderr
    journal = (open_run("last").folder / "journal.jsonl").read_text()
    assert "longer than the model can read" in journal
    asked = len(served.server.requests)
    assert call("experience", "replay", "last", "--json").json["same"] is True
    assert len(served.server.requests) == asked


@pytest.mark.slow
@pytest.mark.usefixtures("near", "no_waits")
def test_a_parked_run_pays_for_no_answer_twice(call: Call, served: Served) -> None:
    _, clean, _ = train(call, served)
    asked = len(served.server.requests)
    served.odd = lambda _, number: Odd(402, error()) if number == asked + 90 else None
    assert train(call, served)[0] == 5
    resumed = call("runs", "resume", "last", "--json")
    assert resumed.json["digest"] == clean["digest"]
    assert len(served.server.requests) <= 2 * asked + 8  # those in flight at the park


@pytest.mark.slow
@pytest.mark.usefixtures("near", "no_waits")
@pytest.mark.parametrize("odd", NO_LESSONS.values(), ids=NO_LESSONS)
def test_a_teacher_that_answers_oddly_ends_no_run(
    odd: Callable[[Body, int], Odd | None], call: Call, served: Served
) -> None:
    served.odd = odd
    assert train(call, served)[0] == 0


def kill_and_resume(served: Served, place: Path, kills: int) -> tuple[str, int]:
    """Runs the real program, kills its worker often, and returns the digest and the requests."""
    file = write_tasks(place / "sums.jsonl", 64)
    program = [sys.executable, "-m", "zoo.gym"]
    words = ["experience", "train", str(file), "--model", served.model, *QUICK, *TINY]
    rng = random.Random(1)
    before = len(served.server.requests)

    def ask(*more: str) -> dict[str, Any]:
        done = subprocess.run(
            [*program, *more, "--json"], capture_output=True, text=True, check=False
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    found = ask(*words, "--detach")
    run = found["run"]
    for _ in range(kills):
        time.sleep(rng.random() * 0.2)
        identity = json.loads((Path(found["folder"]) / "worker.json").read_text())
        try:
            os.kill(identity["pid"], signal.SIGKILL)
        except ProcessLookupError:
            break
        while ask("runs", "show", run)["state"] == "running":
            time.sleep(0.05)
        if ask("runs", "show", run)["state"] == "done":
            break
        ask("runs", "resume", run, "--detach")
    while (state := ask("runs", "show", run)["state"]) in ("running", "queued"):
        time.sleep(0.1)
    if state != "done":
        ask("runs", "resume", run)
    shown = ask("runs", "show", run)
    assert shown["state"] == "done", shown
    return str(shown["metrics"]["digest"]), len(served.server.requests) - before


@pytest.mark.parametrize(
    "kills",
    [pytest.param(2, marks=pytest.mark.slow), pytest.param(30, marks=pytest.mark.nightly)],
)
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_kills_change_nothing_and_pay_for_no_answer_twice(
    kills: int, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    clean, asked = kill_and_resume(served, tmp_path, 0)
    disturbed, again = kill_and_resume(served, tmp_path, kills)
    assert disturbed == clean
    assert again <= asked + kills * 8  # 8 in flight at each kill


def bug(lines: Any, _: str) -> Reply:
    return cast("Reply", lines + 1)


CANARY = "sk-canary/0123+456789xyz"


@pytest.mark.slow
@pytest.mark.usefixtures("near", "no_waits")
@pytest.mark.parametrize("place", ["environment", "keyring"])
def test_a_key_is_in_no_file_and_in_no_output(
    place: str,
    call: Call,
    served: Served,
    keyring: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    # the forms themselves are tested elsewhere
    from zoo.backends.openai.secrets import _forms  # pyright: ignore[reportPrivateUsage]

    keep = keyring if place == "keyring" else monkeypatch.setenv
    keep("MINE_API_KEY", CANARY)
    call("providers", "set", "mine", f"url={served.server.url}", "key=MINE_API_KEY")
    file = write_tasks(Path("sums.jsonl"), 64)
    words = ("experience", "train", str(file), "--model", "mine/world", *QUICK, *TINY, "--json")
    forms = list(_forms(CANARY))
    echoes = [Odd(text=f"{form} key") for form in forms]
    echoes += [Odd(500, error(f"key {form}")) for form in forms]
    echoes += [Odd(429, "", headers={"Retry-After": "0", "X-Key": CANARY})]
    served.odd = lambda _, number: echoes[number % len(echoes)] if number % 2 else None
    sentences = [call(*words)]
    redirect = Odd(302, error(CANARY), headers={"Location": f"http://127.0.0.1:9/{CANARY}"})
    for odd in (redirect, Odd(401, error(f"bad key {CANARY}")), Odd(400, error(forms[1]))):
        served.odd = every(40, odd)
        sentences.append(call(*words))
    assert served.server.headers[-1]["Authorization"] == f"Bearer {CANARY}"
    with monkeypatch.context() as crash:
        crash.setattr("zoo.backends.openai.chat.read_stream", bug)
        with pytest.raises(TypeError) as crashed:
            call(*words)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    shown = [*(one.stdout + one.stderr for one in sentences), *format_exception(crashed.value)]
    everything = b"\n".join([*files, *(text.encode() for text in shown)])
    assert [form for form in forms if form.encode().lower() in everything.lower()] == []
    assert b"[key]" in everything
