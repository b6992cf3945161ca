"""What a queue of tasks does; SQLite holds one on a machine, Postgres one for several."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from zoo.gym.errors import NotAvailableError


class ConnectionLostError(NotAvailableError):
    """The server of a queue does not answer; what was acknowledged is kept."""


LEASE_S = 60.0
"""A task that its worker has not renewed for so long is given to another one."""


@dataclass(frozen=True)
class Task:
    """A part of a job.

    Attributes:
        job: its round and the digest of its description, see `job_name`.
        number: from 0.
    """

    job: str
    number: int


def scope_of(round_: str) -> str:
    """Returns what the names of a round's jobs begin with."""
    return round_[:16] + "-"


def job_name(round_: str, description: bytes) -> str:
    """Returns the name of a job: the same computation has the same one, whoever adds it."""
    return scope_of(round_) + sha256(description).hexdigest()


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    Attributes:
        tasks: all of them.
        done: those with a result.
        errors: the first message of each task that cannot be done.
    """

    tasks: int
    done: int
    errors: Sequence[str]

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.done == self.tasks or bool(self.errors)


class Queue(Protocol):
    """Jobs, their tasks, and the results; every method is durable when it returns."""

    def add(self, job: str, description: bytes, tasks: int) -> None:
        """Adds a job; one that is there already is left as it is.

        Raises:
            StorageError: the queue cannot be written.
        """
        ...

    def description(self, job: str) -> bytes:
        """Returns the description of a job.

        Raises:
            NotAvailableError: there is no such job.
        """
        ...

    def claim(
        self, scope: str, worker: str, lease_s: float = LEASE_S, without: Collection[str] = ()
    ) -> Task | None:
        """Leases a task that nobody works on, of the oldest job first; None if there is none.

        Args:
            scope: what the names of the jobs begin with.
            worker: who leases it; no two live workers have one name.
            lease_s: for how long, in seconds.
            without: jobs whose tasks are left to others.
        """
        ...

    def renew(self, task: Task, worker: str, lease_s: float = LEASE_S) -> bool:
        """Extends a lease; False if another worker has the task now."""
        ...

    def give_back(self, task: Task, worker: str) -> None:
        """Ends a lease: others can claim the task at once. Nothing if another worker has it now."""
        ...

    def finish(self, task: Task, content: bytes) -> None:
        """Stores the result of a task.

        Raises:
            InputError: another result is there: two workers have computed different bytes.
        """
        ...

    def fail(self, task: Task, message: str) -> None:
        """Stores why a task cannot be done by anybody; its job ends."""
        ...

    def result(self, task: Task) -> bytes:
        """Returns the result of a task.

        Raises:
            NotAvailableError: it is not done.
        """
        ...

    def progress(self, job: str) -> Progress:
        """Returns how far a job is."""
        ...

    def remove(self, job: str) -> None:
        """Deletes a job with its tasks and results."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...
