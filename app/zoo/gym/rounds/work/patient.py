"""A queue that waits for a server which does not answer, such as one that restarts.

Every method of a queue may be repeated: a claim whose answer was lost is a lease that runs out.
"""

import time
from collections.abc import Callable, Collection
from typing import TypeVar

from zoo.gym.rounds.work.queue import LEASE_S, ConnectionLostError, Progress, Queue, Task

PATIENCE_S = 300.0
"""How long a server may be away."""

PAUSE_S = 0.5

T = TypeVar("T")


class PatientQueue:
    """A queue over connections that are opened again when they are lost, see `Queue`.

    Args:
        open_queue: opens a connection.
        patience_s: how long to try, in seconds; then the error of the last try is raised.
    """

    def __init__(self, open_queue: Callable[[], Queue], patience_s: float = PATIENCE_S) -> None:
        self._open, self._patience_s = open_queue, patience_s
        self._queue: Queue | None = None

    def add(self, job: str, description: bytes, tasks: int) -> None:
        """Adds a job; see `Queue.add`."""
        self._try(lambda queue: queue.add(job, description, tasks))

    def description(self, job: str) -> bytes:
        """Returns the description of a job; see `Queue.description`."""
        return self._try(lambda queue: queue.description(job))

    def claim(
        self, scope: str, worker: str, lease_s: float = LEASE_S, without: Collection[str] = ()
    ) -> Task | None:
        """Leases a task; see `Queue.claim`."""
        return self._try(lambda queue: queue.claim(scope, worker, lease_s, without))

    def renew(self, task: Task, worker: str, lease_s: float = LEASE_S) -> bool:
        """Extends a lease; see `Queue.renew`."""
        return self._try(lambda queue: queue.renew(task, worker, lease_s))

    def give_back(self, task: Task, worker: str) -> None:
        """Ends a lease; see `Queue.give_back`."""
        self._try(lambda queue: queue.give_back(task, worker))

    def finish(self, task: Task, content: bytes) -> None:
        """Stores the result of a task; see `Queue.finish`."""
        self._try(lambda queue: queue.finish(task, content))

    def fail(self, task: Task, message: str) -> None:
        """Stores why a task cannot be done; see `Queue.fail`."""
        self._try(lambda queue: queue.fail(task, message))

    def result(self, task: Task) -> bytes:
        """Returns the result of a task; see `Queue.result`."""
        return self._try(lambda queue: queue.result(task))

    def progress(self, job: str) -> Progress:
        """Returns how far a job is; see `Queue.progress`."""
        return self._try(lambda queue: queue.progress(job))

    def remove(self, job: str) -> None:
        """Deletes a job; see `Queue.remove`."""
        self._try(lambda queue: queue.remove(job))

    def close(self) -> None:
        """Closes the connection."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    def _try(self, act: Callable[[Queue], T]) -> T:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                if self._queue is None:
                    self._queue = self._open()
                return act(self._queue)
            except ConnectionLostError:
                if time.monotonic() > deadline:
                    raise
                self.close()
                time.sleep(PAUSE_S)
