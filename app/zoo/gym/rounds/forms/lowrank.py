"""Contributions of low-rank factors, which are multiplied out only where a rule needs columns.

A tensor is `d[o, i] = sum over k of B[k, o] A[k, i]`, row-major: its columns here are o times the
number of inputs plus i.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.rounds.forms.base import SHARD, Piece, Rows, mean_of_rows, of_tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Factors:
    """One tensor of all contributors; ranks may differ.

    Attributes:
        a: float32, [rank, inputs] for each contributor.
        b: [rank, outputs], transposed.
    """

    a: "Sequence[NDArray[np.float32]]"
    b: "Sequence[NDArray[np.float32]]"


@dataclass(frozen=True)
class LowRank:
    """Contributions of factors, see `Contributions`.

    Attributes:
        tensors: by name.
    """

    tensors: Mapping[str, Factors]

    @property
    def count(self) -> int:
        """The number of contributors."""
        return len(next(iter(self.tensors.values())).a)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of columns of each tensor, multiplied out."""
        each = {name: self.tensors[name] for name in sorted(self.tensors)}
        return {name: one.a[0].shape[1] * one.b[0].shape[1] for name, one in each.items()}

    def gram(self, *, threads: int | None = None) -> "NDArray[np.uint64]":
        """Returns the exact scalar products, [n, n, 2], from the factors alone."""
        import numpy as np

        from zoo.core.gram import lowrank_gram

        total = np.zeros((self.count, self.count, 2), np.uint64)
        for name in self.sizes:
            with of_tensor(name):
                tensor = self.tensors[name]
                lowrank_gram(tensor.a, tensor.b, into=total, threads=threads)
        return total

    def mean(
        self, weights: "NDArray[np.float32]", *, rest: float = 0, threads: int | None = None
    ) -> Iterator[Piece]:
        """Yields the weighted mean, multiplied out."""
        return mean_of_rows(self, weights, rest, threads)

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, Rows]]:
        """Yields some outputs at a time, multiplied out in the core's fixed order."""
        for name in self.sizes:
            tensor = self.tensors[name]
            inputs, outputs = tensor.a[0].shape[1], tensor.b[0].shape[1]
            height = max(1, SHARD // inputs)
            for top in range(0, outputs, height):
                part = slice(top, min(outputs, top + height))
                pairs = zip(tensor.a, tensor.b, strict=True)
                rows = [_product(a, b[:, part], threads).reshape(-1) for a, b in pairs]
                yield name, top * inputs, rows

    def take(self, rows: list[int]) -> "LowRank":
        """Returns the contributions of some contributors."""
        return LowRank(
            {
                name: Factors([each.a[row] for row in rows], [each.b[row] for row in rows])
                for name, each in self.tensors.items()
            }
        )


def _product(
    a: "NDArray[np.float32]", b: "NDArray[np.float32]", threads: int | None
) -> "NDArray[np.float32]":
    import numpy as np

    from zoo.core import add_product

    total = np.zeros((b.shape[1], a.shape[1]), np.float32)
    add_product(a, np.ascontiguousarray(b), total, threads=threads)
    return total
