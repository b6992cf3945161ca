"""`zoo-gym round work` beside a maker who aggregates."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gym.cli.test_communities import Call, committed, person, revealed, started, to_compute
from zoo.gym.cli import round_work
from zoo.gym.rounds.compute.collect import collect
from zoo.gym.rounds.compute.reasons import NOT_STORED
from zoo.gym.rounds.life.opening import Opened, open_round
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.rounds.storage.folder import FolderStorage
from zoo.gym.rounds.work.jobs import Job, groups_of
from zoo.gym.rounds.work.queue import Progress, job_name
from zoo.gym.rounds.work.sqlite import sqlite_queue

__all__ = ["person"]  # a fixture

WORK = ("round", "work")
QUEUE = ("--queue", "q.db", "--idle-s", ".5", "--json")


def opened(place: str = "round") -> Opened:
    return open_round(FolderStorage(Path(place).resolve()))


def queued() -> Callable[[], Progress]:
    """Adds the first job of `aggregate`, and returns what says how far it is."""
    found = opened()
    digests = sorted(reveal.digest for reveal in found.state.reveals.values()) or ["0" * 64]
    job = Job("gram", found.state.id, digests, groups_of(found.manifest.tensors))
    name, queue = job_name(found.state.id, job.as_bytes()), sqlite_queue(Path("q.db"))
    queue.add(name, job.as_bytes(), len(job.groups))
    return lambda: queue.progress(name)


@pytest.mark.slow
def test_a_worker_takes_no_task_before_all_is_revealed(person: Call) -> None:
    started(person)
    committed(person, "ann")
    progress = queued()
    found = person("ann", *WORK, "round", *QUEUE)
    assert (found.code, found.json["tasks"]) == (0, 0), found.stderr
    assert "the round is in phase commit: there are tasks when all is revealed" in found.stderr
    assert (progress().done, progress().errors) == (0, [])


@pytest.mark.slow
def test_a_worker_that_was_started_early_helps_when_all_is_revealed(
    person: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(person)
    early = opened()
    revealed_now: list[Opened] = [early, early]

    def look(given: str | None) -> Opened:
        assert given is not None
        return revealed_now.pop() if revealed_now else opened()

    to_compute(person)
    progress = queued()
    monkeypatch.setattr(round_work, "opened_round", look)
    monkeypatch.setattr(round_work, "LOOK_S", 0.0)
    found = person("ann", *WORK, "round", *QUEUE)
    assert (found.code, found.json["tasks"]) == (0, 1), found.stderr
    assert (progress().done, progress().errors) == (1, [])


@pytest.fixture
def copy(person: Call) -> str:
    """Returns a copy of a round that lacks the file which Ben revealed."""
    revealed(person)
    shutil.copytree("round", "copy")
    last = list(opened().state.reveals.values())[-1]
    Path("copy", chunk_name(last.chunks)).unlink()
    return "copy"


@pytest.mark.slow
def test_a_worker_that_lacks_a_file_says_so_and_holds_nobody_up(person: Call, copy: str) -> None:
    progress = queued()
    found = person("ann", *WORK, copy, *QUEUE)
    assert (found.code, found.json["tasks"]) == (0, 0), found.stderr
    lacking = list(opened().state.reveals.values())[-1].digest
    address = Path(copy).resolve()
    said = f"note: contribution {lacking[:12]}: expected its file at {address}, got none: "
    assert f"{said}{NOT_STORED}" in found.stderr
    assert "this worker leaves its tasks to others\nhint: every worker needs" in found.stderr
    assert (progress().done, progress().errors) == (0, [])
    assert person("maker", "round", "aggregate", "--queue", "q.db").code == 0


@pytest.mark.slow
def test_a_job_that_nobody_can_do_ends_with_the_file_that_is_missing(
    person: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is lost between the maker's look at the contributions and the tasks."""
    revealed(person)

    def lost(*given: Any) -> Any:
        found = collect(*given)
        return found.without({found.keys[0]: NOT_STORED})

    monkeypatch.setattr("zoo.gym.rounds.compute.dividing.collect", lost)
    found = person("maker", "round", "aggregate", "--queue", "q.db")
    lacking = min(reveal.digest for reveal in opened().state.reveals.values())
    address = Path("round").resolve()
    said = f"contribution {lacking[:12]}: expected its file at {address}, got none: {NOT_STORED}"
    assert (found.code, said in found.stderr) == (4, True), found.stderr
    assert "hint: every worker needs the round that `round aggregate` computes" in found.stderr
    assert f"zoo-gym round verify {address} shows what is missing" in found.stderr
