"""What every form of contributions can do; rules see nothing else of them."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHARD = 1 << 16
"""Columns of a shard, a multiple of `zoo.core.gram.SHARD_COLUMNS`.

The rows of contributions may be views of mapped files: n rows of a shard are read at once.
"""


@dataclass(frozen=True)
class Piece:
    """Some columns of one tensor of a result.

    Attributes:
        tensor: its name.
        start: the first column; a tensor's values are taken row by row.
        values: float32, [columns].
    """

    tensor: str
    start: int
    values: "NDArray[np.float32]"


class Contributions(Protocol):
    """n contributions in one form, in the order of their digests, which decides ties."""

    @property
    def count(self) -> int:
        """The number n of contributors."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of columns of each tensor, in the order of their names."""
        ...

    def gram(self, *, threads: int | None = None) -> "NDArray[np.uint64]":
        """Returns the exact scalar products, [n, n, 2], see `zoo.core.gram`.

        Raises:
            InputError: a value or scale that is not finite, or a squared norm of 2^40 or more, with
                the tensor's name and the contributor's number.
        """
        ...

    def mean(
        self, weights: "NDArray[np.float32]", *, rest: float = 0, threads: int | None = None
    ) -> Iterator[Piece]:
        """Yields the weighted mean of the contributions.

        Args:
            weights: [n], at least 0.
            rest: the weight of one more contribution, which changes nothing.
            threads: number of threads; all if None.
        """
        ...

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, "Rows"]]:
        """Yields each shard as plain rows: tensor, first column, n rows of float32."""
        ...

    def take(self, rows: list[int]) -> "Contributions":
        """Returns the contributions of these contributors."""
        ...


@runtime_checkable
class Combining(Protocol):
    """Contributions that are combined elsewhere."""

    @property
    def local(self) -> Contributions:
        """The same contributions on this machine."""
        ...

    def combined(self, selection: Any) -> Iterator[Piece]:  # noqa: ANN401 - a `rules.Selection`
        """Yields the combination that a rule has selected, tensor by tensor."""
        ...


Rows = list["NDArray[np.float32]"]
"""One array for each contributor, [columns]."""


def shards(columns: int, size: int = SHARD) -> Iterator[tuple[int, int]]:
    """Yields start and end of each shard of a tensor."""
    for start in range(0, columns, size):
        yield start, min(columns, start + size)


def mean_of_rows(
    contributions: Contributions,
    weights: "NDArray[np.float32]",
    rest: float,
    threads: int | None,
) -> Iterator[Piece]:
    """Yields the weighted mean of plain rows, see `Contributions.mean`."""
    import numpy as np

    from zoo.core import weighted_mean

    extended = np.append(weights, np.float32(rest))
    for name, start, rows in contributions.columns(threads=threads):
        more = [*rows, np.zeros_like(rows[0])]
        with of_tensor(name):
            yield Piece(name, start, weighted_mean(more, extended, threads=threads))


@contextmanager
def of_tensor(name: str) -> Generator[None]:
    """Prepends the tensor's name to the messages of errors raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"tensor {name!r}: {error.message}", hint=error.hint) from error
