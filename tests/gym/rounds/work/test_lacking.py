"""A worker that lacks a file leaves the tasks to others, and who aggregates says which file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gym.rounds.work.crew import DIGESTS, ROUND
from tests.gym.rounds.work.test_divided import divided
from zoo.gym.rounds.forms.base import Contributions
from zoo.gym.rounds.work import worker
from zoo.gym.rounds.work.divided import Divided
from zoo.gym.rounds.work.jobs import Job, MissingFileError, groups_of
from zoo.gym.rounds.work.queue import job_name, scope_of
from zoo.gym.rounds.work.worker import ATTEMPTS, Report, work

SAID = "contribution 0123456789ab: expected its file at /round, got none"


def lacks(digests: Sequence[str], names: Sequence[str]) -> Contributions:
    assert digests
    assert names
    raise MissingFileError(SAID, hint="every worker needs the round")


def added(engine: Divided) -> str:
    """Adds the first job of a round with three tasks, and returns its name."""
    job = Job("gram", ROUND, DIGESTS, groups_of(engine.tensors, engine.columns))
    name = job_name(ROUND, job.as_bytes())
    engine.open_queue().add(name, job.as_bytes(), len(job.groups))
    return name


def work_without(engine: Divided, report: Report | None) -> int:
    """Works without any file until there is no task left for this worker."""
    return work(engine.open_queue, ROUND, lacks, lambda _: True, report=report)


def queued(folder: Path) -> tuple[Divided, list[MissingFileError]]:
    """Returns an engine whose job is queued, and what a worker will report."""
    engine = divided(folder / "q.db", "float")
    added(engine)
    return engine, []


def test_a_worker_that_lacks_a_file_gives_its_task_back(tmp_path: Path) -> None:
    engine, said = divided(tmp_path / "q.db", "float"), list[MissingFileError]()
    queue, name = engine.open_queue(), added(engine)
    assert work_without(engine, said.append) == 0
    assert [error.message for error in said] == [SAID]
    assert queue.progress(name).errors == []
    claimed = [queue.claim(scope_of(ROUND), "another") for _ in range(4)]
    assert [one is not None for one in claimed] == [True, True, True, False]


def test_a_worker_that_lacks_a_file_does_not_try_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "AGAIN_S", 0.0)
    engine, said = queued(tmp_path)
    assert work_without(engine, said.append) == 0
    assert len(said) == ATTEMPTS


def test_a_file_that_was_stored_late_lets_a_worker_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "AGAIN_S", 0.0)
    engine, said = queued(tmp_path)

    def late(digests: Sequence[str], names: Sequence[str]) -> Contributions:
        return (engine.parts if said else lacks)(digests, names)

    assert work(engine.open_queue, ROUND, late, lambda _: True, report=said.append) == 3
    assert len(said) == 1


def test_what_the_aggregating_process_lacks_is_an_error_and_no_job(tmp_path: Path) -> None:
    engine = replace(divided(tmp_path / "q.db", "float"), parts=lacks)
    with pytest.raises(MissingFileError, match="contribution 0123456789ab") as error:
        engine.gram(DIGESTS)
    assert error.value.hint == "every worker needs the round"
    assert engine.open_queue().claim(scope_of(ROUND), "ann") is None


def test_an_older_job_whose_files_are_gone_does_not_hold_the_round_up(tmp_path: Path) -> None:
    """The process that aggregates ends it: it knows what the round has now."""
    engine = divided(tmp_path / "q.db", "float", columns=1)
    older = added(engine)

    def some(digests: Sequence[str], names: Sequence[str]) -> Contributions:
        if len(digests) == len(DIGESTS):
            return lacks(digests, names)
        return engine.parts(digests, names).take([DIGESTS.index(one) for one in digests])

    found = replace(engine, parts=some, columns=3000).gram(DIGESTS[:3])
    assert found.shape == (3, 3, 2)
    assert engine.open_queue().progress(older).errors == [SAID]
