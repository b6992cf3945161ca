"""A queue gives each task to one worker at a time, and keeps what is done."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zoo.gym.errors import InputError, NotAvailableError, StorageError
from zoo.gym.rounds.work.postgres import postgres_queue
from zoo.gym.rounds.work.queue import Queue, Task
from zoo.gym.rounds.work.sqlite import sqlite_queue

SCOPE = "round-"
JOB = SCOPE + "job"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Queue]]:
    """Opens connections to one queue."""
    found: list[Queue] = []

    def another() -> Queue:
        if request.param == "sqlite":
            found.append(sqlite_queue(tmp_path / "queue.db"))
        else:
            found.append(postgres_queue(request.getfixturevalue("postgres").address))
        return found[-1]

    yield another
    another().remove(JOB)
    for queue in found:
        queue.close()


@pytest.fixture
def queue(opened: Callable[[], Queue]) -> Queue:
    found = opened()
    found.add(JOB, b"what to do", 2)
    return found


def test_a_task_is_leased_once(queue: Queue, opened: Callable[[], Queue]) -> None:
    other = opened()
    assert queue.claim(SCOPE, "ann") == Task(JOB, 0)
    assert other.claim(SCOPE, "ben") == Task(JOB, 1)
    assert queue.claim(SCOPE, "ann") is None


def test_a_task_that_is_given_back_is_free_at_once(queue: Queue) -> None:
    task = queue.claim(SCOPE, "ann")
    assert task is not None
    queue.give_back(task, "ben")  # who has not leased it
    assert queue.claim(SCOPE, "ben") == Task(JOB, 1)
    queue.give_back(task, "ann")
    assert queue.claim(SCOPE, "ben") == task


def test_jobs_that_a_worker_leaves_to_others_are_passed_over(queue: Queue) -> None:
    assert queue.claim(SCOPE, "ann", without=["round-other", JOB]) is None
    assert queue.claim(SCOPE, "ann", without=["round-other"]) == Task(JOB, 0)


def test_another_round_s_tasks_are_left_alone(queue: Queue) -> None:
    assert queue.claim("other-", "ann") is None


def test_a_lease_that_ran_out_is_given_to_another_worker(queue: Queue) -> None:
    first = queue.claim(SCOPE, "ann", lease_s=-1)
    assert first == queue.claim(SCOPE, "ben")
    assert first is not None
    assert not queue.renew(first, "ann")
    assert queue.renew(first, "ben")


def test_results_are_kept_and_adding_a_job_again_changes_nothing(
    queue: Queue, opened: Callable[[], Queue]
) -> None:
    queue.finish(Task(JOB, 0), b"zero")
    queue.add(JOB, b"something else", 2)
    other = opened()
    assert (other.description(JOB), other.result(Task(JOB, 0))) == (b"what to do", b"zero")
    found = other.progress(JOB)
    assert (found.tasks, found.done, found.ended) == (2, 1, False)
    other.finish(Task(JOB, 1), b"one")
    assert queue.progress(JOB).ended


def test_the_same_result_twice_is_fine_and_another_one_is_refused(queue: Queue) -> None:
    queue.finish(Task(JOB, 0), b"zero")
    queue.finish(Task(JOB, 0), b"zero")
    with pytest.raises(InputError, match="expected the bytes that another worker has computed"):
        queue.finish(Task(JOB, 0), b"other")
    assert queue.result(Task(JOB, 0)) == b"zero"


def test_a_task_that_cannot_be_done_ends_its_job(queue: Queue) -> None:
    queue.fail(Task(JOB, 0), "tensor 'a': NaN")
    assert queue.claim(SCOPE, "ann") is None
    assert queue.progress(JOB).errors == ["tensor 'a': NaN"]


def test_what_is_not_there_is_an_error(queue: Queue) -> None:
    with pytest.raises(NotAvailableError, match="expected a result of task 1"):
        queue.result(Task(JOB, 1))
    queue.remove(JOB)
    with pytest.raises(NotAvailableError, match="expected job"):
        queue.description(JOB)
    queue.finish(Task(JOB, 1), b"late")  # by a worker that did not know


def test_a_file_that_is_no_queue_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(StorageError, match="cannot use the queue"):
        sqlite_queue(tmp_path / "text")
