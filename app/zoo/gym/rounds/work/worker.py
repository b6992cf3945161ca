"""Works on the tasks of a queue until there is nothing left, or the round has its result."""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from zoo.gym.errors import InputError
from zoo.gym.rounds.work.jobs import Job, Parts, UnreadableJobError, perform, read_job
from zoo.gym.rounds.work.patient import PatientQueue
from zoo.gym.rounds.work.queue import LEASE_S, ConnectionLostError, Queue, Task, scope_of

Open = Callable[[], Queue]
"""Opens the queue; a thread or a reconnection needs a connection of its own."""

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

    Raises:
        InputError: another worker has computed other bytes.
        NotAvailableError: the queue cannot be reached, also not some minutes later.
    """
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    queue, done = PatientQueue(open_queue), 0
    idle_since = time.monotonic()
    jobs: dict[str, Job] = {}
    try:
        while True:
            task = queue.claim(scope_of(round_), name, lease_s)
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
            with _renewing(open_queue, task, name, lease_s):
                _do(queue, task, jobs[task.job], parts, threads)
            done += 1
            idle_since = time.monotonic()
    finally:
        queue.close()


def _do(queue: Queue, task: Task, job: Job, parts: Parts, threads: int | None) -> None:
    """Does one task; what nobody could do is stored as its error."""
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
