"""Divides the computation of a round into pure tasks: some tensors of its contributions each.

The parts of the Gram matrix add up exactly, and combined values are concatenated. So the bytes are
those of one process, in whichever groups, wherever and however often tasks are computed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from zoo.gym.rounds.forms.base import Contributions, Piece, Rows
from zoo.gym.rounds.protocol.manifest import Tensor
from zoo.gym.rounds.rules.aggregate import Selection, combine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = 1 << 24
"""A task has tensors of about so many values."""

Groups: TypeAlias = Sequence[Sequence[str]]
"""The tensors of each task."""


@dataclass(frozen=True)
class Job:
    """A computation that tasks divide.

    Attributes:
        digests: of the contributions, in the order of the rows.
        selection: what a rule selected, to compute the combination; None for the Gram matrix.
    """

    digests: Sequence[str]
    selection: Selection | None = None


Part: TypeAlias = "NDArray[np.uint64] | NDArray[np.float32]"
"""The result of a task: scalar products [n, n, 2], or combined values, tensor after tensor."""

Compute = Callable[[Job, Sequence[str]], "Part"]
"""Computes a task: the part of a job that some tensors are."""

Run = Callable[[Job, Groups], Iterator["Part"]]
"""Computes all tasks of a job and yields their results in order."""


def groups_of(tensors: Sequence[Tensor], columns: int = COLUMNS) -> list[list[str]]:
    """Returns the names of tensors, in order, in groups of about so many values."""
    groups: list[list[str]] = []
    filled = columns
    for tensor in tensors:
        if filled >= columns:
            groups.append([])
            filled = 0
        groups[-1].append(tensor.name)
        filled += tensor.size
    return groups


def compute_task(job: Job, contributions: Contributions, *, threads: int | None = None) -> "Part":
    """Returns the part of a job that some tensors are.

    Args:
        job: the job.
        contributions: its contributions, of these tensors alone.
        threads: number of threads; all if None.

    Raises:
        InputError: a contribution has a value that no sum survives, with tensor and contributor.
    """
    import numpy as np

    if job.selection is None:
        return contributions.gram(threads=threads)
    pieces = combine(job.selection, contributions, threads=threads)
    return np.concatenate([piece.values for piece in pieces])


@dataclass(frozen=True)
class DividedContributions:
    """Contributions whose products and combination are computed in tasks.

    Attributes:
        local: the same contributions on this machine.
        digests: theirs, in order.
        groups: the tensors of each task.
        run: computes the tasks.
    """

    local: Contributions
    digests: Sequence[str]
    groups: Groups
    run: Run

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
        import numpy as np

        del threads  # each task has its own number
        total = np.zeros((self.count, self.count, 2), np.uint64)
        for part in self.run(Job(self.digests), self.groups):
            _add(total, part.view(np.uint64))
        return total

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
        """Yields the combination that a rule has selected, tensor by tensor."""
        import numpy as np

        job = Job(self.digests, replace(selection, gram=None))  # which no combination needs
        for names, part in zip(self.groups, self.run(job, self.groups), strict=True):
            values = part.view(np.float32)
            ends = np.cumsum([self.sizes[name] for name in names])
            for name, piece in zip(names, np.split(values, ends[:-1]), strict=True):
                yield Piece(name, 0, piece)


def _add(total: "NDArray[np.uint64]", part: "NDArray[np.uint64]") -> None:
    """Adds a part of a Gram matrix, [n, n, 2], in 128 bits."""
    low = total[..., 0] + part[..., 0]
    total[..., 1] += part[..., 1] + (low < part[..., 0])
    total[..., 0] = low
