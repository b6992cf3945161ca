"""Contributions of plain differences: float32, float16 or bfloat16."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo.core.arrays import DType
from zoo.gym.rounds.forms.base import Piece, Rows, shards
from zoo.gym.rounds.forms.naming import of_tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Floats:
    """Contributions of plain differences, see `Contributions`.

    Attributes:
        tensors: by name, one array for each contributor, [columns]; bfloat16 as uint16.
        dtype: the type of their values.
    """

    tensors: "Mapping[str, Sequence[NDArray[Any]]]"
    dtype: DType = "f32"

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
        for name, start, rows in self._shards():
            with of_tensor(name):
                float_gram(rows, dtype=self.dtype, into=total, threads=threads)
            del start
        return total

    def mean(
        self, weights: "NDArray[np.float32]", *, rest: float = 0, threads: int | None = None
    ) -> Iterator[Piece]:
        """Yields the weighted mean."""
        import numpy as np

        from zoo.core import weighted_mean

        extended = np.append(weights, np.float32(rest))
        for name, start, rows in self._shards():
            more = [*rows, np.zeros_like(rows[0])]
            with of_tensor(name):
                values = weighted_mean(more, extended, dtype=self.dtype, threads=threads)
            yield Piece(name, start, values)

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, Rows]]:
        """Yields each shard as float32 rows."""
        import numpy as np

        from zoo.core import weighted_mean

        one = np.ones(1, np.float32)
        for name, start, rows in self._shards():
            if self.dtype == "f32":
                yield name, start, rows
                continue
            wide = [weighted_mean([row], one, dtype=self.dtype, threads=threads) for row in rows]
            yield name, start, wide

    def take(self, rows: list[int]) -> "Floats":
        """Returns the contributions of some contributors."""
        tensors = {name: [each[row] for row in rows] for name, each in self.tensors.items()}
        return Floats(tensors, self.dtype)

    def _shards(self) -> "Iterator[tuple[str, int, list[NDArray[Any]]]]":
        for name, columns in self.sizes.items():
            for start, end in shards(columns):
                yield name, start, [row[start:end] for row in self.tensors[name]]
