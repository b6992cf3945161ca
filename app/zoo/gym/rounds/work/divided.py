"""Computes Gram matrix and combination of a round through a queue, with whoever works on it.

Who can write in the queue could write results that nobody computed. Before any is used, a task that
is drawn by lot is computed again here: that finds the forgery of a whole job for sure, and that of
one task in n once in n times. Strangers find every one, by `verify`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import randbelow
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.rounds.forms.base import Contributions, Piece, Rows
from zoo.gym.rounds.protocol.manifest import Tensor
from zoo.gym.rounds.rules.aggregate import Selection
from zoo.gym.rounds.work.jobs import (
    COLUMNS,
    Job,
    Parts,
    add_gram,
    fault_of,
    groups_of,
    perform,
    pieces_of,
)
from zoo.gym.rounds.work.patient import PatientQueue
from zoo.gym.rounds.work.queue import LEASE_S, Progress, Queue, Task, job_name
from zoo.gym.rounds.work.worker import IDLE_S, Open, work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Watch = Callable[[str, Progress], None]
"""Called with the kind of a job and how far it is."""


def ignore(kind: str, progress: Progress) -> None:
    """Watches nothing."""
    del kind, progress


@dataclass(frozen=True)
class Divided:
    """The computation of a round as jobs of a queue; this process works on them, too.

    Attributes:
        open_queue: opens the queue.
        round: the round's id.
        tensors: of the round.
        parts: gives the contributions.
        threads: number of threads of a task; all if None.
        columns: values of a task, about.
        watch: called while others work.
        lease_s: of a task, in seconds.
        helps: whether this process works on tasks, too.
    """

    open_queue: Open
    round: str
    tensors: Sequence[Tensor]
    parts: Parts
    threads: int | None = None
    columns: int = COLUMNS
    watch: Watch = ignore
    lease_s: float = LEASE_S
    helps: bool = True

    def gram(self, digests: Sequence[str]) -> "NDArray[np.uint64]":
        """Returns the exact scalar products of contributions, [n, n, 2].

        Raises:
            InputError: a value that no sum survives, or workers that compute other bytes.
            NotAvailableError: the queue cannot be reached, or the file of a contribution is missing
                here.
        """
        import numpy as np

        total = np.zeros((len(digests), len(digests), 2), np.uint64)
        for _, content in self._results(Job("gram", self.round, digests, self._groups())):
            add_gram(total, content)
        return total

    def combine(self, digests: Sequence[str], selection: Selection) -> Iterator[Piece]:
        """Yields the combination, tensor by tensor.

        Raises:
            InputError: as `gram`.
            NotAvailableError: as `gram`.
        """
        sizes = {tensor.name: tensor.size for tensor in self.tensors}
        job = Job("combine", self.round, digests, self._groups(), selection)
        for names, content in self._results(job):
            yield from pieces_of(content, names, sizes)

    def _groups(self) -> list[list[str]]:
        return groups_of(self.tensors, self.columns)

    def _results(self, job: Job) -> Iterator[tuple[Sequence[str], bytes]]:
        """Yields the tensors and the result of each task, in order; removes the job at the end."""
        self.parts(job.contributions, job.groups[0])  # what is missing here nobody can check
        description = job.as_bytes()
        name = job_name(self.round, description)
        queue = PatientQueue(self.open_queue)
        try:
            queue.add(name, description, len(job.groups))

            def ended(idle_s: float) -> bool:
                del idle_s
                progress = queue.progress(name)
                self.watch(job.kind, progress)
                return progress.ended

            if self.helps:
                work(
                    self.open_queue,
                    self.round,
                    self.parts,
                    ended,
                    threads=self.threads,
                    lease_s=self.lease_s,
                )
            else:
                while not ended(0):
                    time.sleep(IDLE_S)
            errors = queue.progress(name).errors
            if errors:
                queue.remove(name)
                raise InputError(errors[0])
            try:
                yield from self._checked(queue, job, name)
            except _ForgedError as error:
                queue.remove(name)  # the next try starts anew
                raise InputError(
                    f"queue: {job.kind}: {error}",
                    hint="a worker is faulty or lies, or others can write there: use another queue",
                ) from None
            queue.remove(name)
        finally:
            queue.close()

    def _checked(self, queue: Queue, job: Job, name: str) -> Iterator[tuple[Sequence[str], bytes]]:
        """Yields the results of a job after one was computed again.

        Raises:
            _ForgedError: one was not computed.
        """
        sizes = {tensor.name: tensor.size for tensor in self.tensors}
        drawn = randbelow(len(job.groups))
        again = perform(job, drawn, self.parts, threads=self.threads)
        if again != queue.result(Task(name, drawn)):
            raise _ForgedError(f"task {drawn}: expected what is computed here, got other bytes")
        for number, names in enumerate(job.groups):
            content = queue.result(Task(name, number))
            fault = fault_of(job, number, content, sizes)
            if fault is not None:
                raise _ForgedError(f"task {number}: {fault}")
            yield names, content


class _ForgedError(Exception):
    """A result that nobody computed."""


@dataclass(frozen=True)
class DividedContributions:
    """Contributions whose products and combination are computed through a queue.

    Attributes:
        local: the same contributions on this machine.
        digests: theirs, in order.
        engine: the queue.
    """

    local: Contributions
    digests: Sequence[str]
    engine: Divided

    @property
    def count(self) -> int:
        """The number of contributors."""
        return self.local.count

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of columns of each tensor."""
        return self.local.sizes

    def gram(self, *, threads: int | None = None) -> "NDArray[np.uint64]":
        """Returns the exact scalar products, [n, n, 2]."""
        del threads  # each worker has its own number
        return self.engine.gram(self.digests)

    def mean(
        self, weights: "NDArray[np.float32]", *, rest: float = 0, threads: int | None = None
    ) -> Iterator[Piece]:
        """Yields the weighted mean, computed here; `combined` divides it."""
        return self.local.mean(weights, rest=rest, threads=threads)

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, Rows]]:
        """Yields each shard as plain rows."""
        return self.local.columns(threads=threads)

    def take(self, rows: list[int]) -> "DividedContributions":
        """Returns the contributions of some contributors."""
        digests = [self.digests[row] for row in rows]
        return replace(self, local=self.local.take(rows), digests=digests)

    def combined(self, selection: Selection) -> Iterator[Piece]:
        """Yields the combination that a rule has selected."""
        return self.engine.combine(self.digests, selection)
