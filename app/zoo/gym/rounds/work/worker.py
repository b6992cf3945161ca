"""Works on the tasks of a queue until there is nothing left, or the round has its result."""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from zoo.gym.errors import InputError
from zoo.gym.rounds.work.jobs import (
    Job,
    MissingFileError,
    Parts,
    UnreadableJobError,
    perform,
    read_job,
)
from zoo.gym.rounds.work.patient import PatientQueue
from zoo.gym.rounds.work.queue import LEASE_S, ConnectionLostError, Queue, Task, scope_of

Open = Callable[[], Queue]
"""Opens the queue; a thread or a reconnection needs a connection of its own."""

Report = Callable[[MissingFileError], None]
"""Called when a task was given back, with what is missing on this machine."""

ATTEMPTS, AGAIN_S = 3, 5.0
"""How often a worker tries a job whose files it lacks, and after how many seconds again."""

IDLE_S = 0.2
"""Between two looks at a queue without a free task."""


def work(
    open_queue: Open,
    round_: str,
    parts: Parts,
    ended: Callable[[float], bool],
    *,
    threads: int | None = None,
    lease_s: float = LEASE_S,
    report: Report | None = None,
) -> int:
    """Does tasks of a round and returns how many.

    Args:
        open_queue: opens the queue.
        round_: the round's id.
        parts: gives its contributions.
        ended: called when there is no free task, with the seconds since the last one; True ends
            the work.
        threads: number of threads of a task; all if None.
        lease_s: a task that is not renewed for so long is given to another worker.
        report: called if the file of a contribution is missing here: the job is then left to
            others, after `ATTEMPTS` for good. If None, it is the job's error: for the process that
            knows what the round has.

    Raises:
        InputError: another worker has computed other bytes.
        NotAvailableError: the queue cannot be reached, also not some minutes later.
    """
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    queue, done = PatientQueue(open_queue), 0
    idle_since = time.monotonic()
    jobs: dict[str, Job] = {}
    lacking = _Lacking(name, report)
    try:
        while True:
            task = queue.claim(scope_of(round_), name, lease_s, lacking.jobs)
            if task is None:
                if ended(time.monotonic() - idle_since):
                    return done
                time.sleep(IDLE_S)
                continue
            if task.job not in jobs:
                try:
                    jobs[task.job] = read_job(queue.description(task.job))
                except UnreadableJobError as error:
                    queue.fail(task, error.message)  # nobody can read it: others are not held up
                    continue
            try:
                with _renewing(open_queue, task, name, lease_s):
                    _do(queue, task, jobs[task.job], parts, threads)
            except MissingFileError as error:
                lacking.leave(queue, task, error)
                continue
            done += 1
            idle_since = time.monotonic()
    finally:
        queue.close()


@dataclass
class _Lacking:
    """The jobs of which a worker lacks a file: how often it tried, and when it tries again."""

    worker: str
    report: Report | None
    _tries: dict[str, int] = field(default_factory=dict[str, int])
    _again_s: dict[str, float] = field(default_factory=dict[str, float])

    def leave(self, queue: Queue, task: Task, error: MissingFileError) -> None:
        """Gives a task back, or ends its job if this process knows what the round has."""
        if self.report is None:
            queue.fail(task, error.message)
            return
        queue.give_back(task, self.worker)
        self._tries[task.job] = self._tries.get(task.job, 0) + 1
        last = self._tries[task.job] >= ATTEMPTS
        self._again_s[task.job] = float("inf") if last else time.monotonic() + AGAIN_S
        self.report(error)

    @property
    def jobs(self) -> list[str]:
        """Those that are left to others now."""
        now = time.monotonic()
        return [job for job, again_s in self._again_s.items() if now < again_s]


def _do(queue: Queue, task: Task, job: Job, parts: Parts, threads: int | None) -> None:
    """Does one task; what nobody could do is stored as its error.

    Raises:
        MissingFileError: another worker could do it.
    """
    try:
        content = perform(job, task.number, parts, threads=threads)
    except InputError as error:
        queue.fail(task, error.message)
        return
    queue.finish(task, content)


@contextmanager
def _renewing(open_queue: Open, task: Task, name: str, lease_s: float) -> Generator[None]:
    """Renews a lease while the task is worked on, in a thread with its own connection."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(lease_s / 4):
            queue = PatientQueue(open_queue, patience_s=0)
            try:
                queue.renew(task, name, lease_s)
            except ConnectionLostError:
                continue  # the lease may run out: the task is then done twice, alike
            finally:
                queue.close()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
