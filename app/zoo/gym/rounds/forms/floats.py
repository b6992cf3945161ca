"""Contributions of plain differences in float32."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.rounds.forms.base import Piece, Rows, mean_of_rows, of_tensor, shards

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Floats:
    """Contributions of plain differences, see `Contributions`.

    Attributes:
        tensors: by name, one array for each contributor, [columns].
    """

    tensors: "Mapping[str, Sequence[NDArray[np.float32]]]"

    @property
    def count(self) -> int:
        """The number of contributors."""
        return len(next(iter(self.tensors.values())))

    @property
    def sizes(self) -> dict[str, int]:
        """The number of columns of each tensor."""
        return {name: self.tensors[name][0].size for name in sorted(self.tensors)}

    def gram(self, *, threads: int | None = None) -> "NDArray[np.uint64]":
        """Returns the exact scalar products, [n, n, 2]."""
        import numpy as np

        from zoo.core.gram import float_gram

        total = np.zeros((self.count, self.count, 2), np.uint64)
        for name, _, rows in self.columns():
            with of_tensor(name):
                float_gram(rows, into=total, threads=threads)
        return total

    def mean(
        self, weights: "NDArray[np.float32]", *, rest: float = 0, threads: int | None = None
    ) -> Iterator[Piece]:
        """Yields the weighted mean."""
        return mean_of_rows(self, weights, rest, threads)

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, Rows]]:
        """Yields each shard, as views."""
        del threads
        for name, columns in self.sizes.items():
            for start, end in shards(columns):
                yield name, start, [row[start:end] for row in self.tensors[name]]

    def take(self, rows: list[int]) -> "Floats":
        """Returns the contributions of some contributors."""
        tensors = {name: [each[row] for row in rows] for name, each in self.tensors.items()}
        return Floats(tensors)
