"""Contributions of signs, with one scale for each tensor of a contributor.

Bit 1 is plus, least significant first; a difference of zero is minus. The scale is the mean of the
absolute differences, as in a delta of signs with `scale: matrix`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.rounds.forms.base import Piece, Rows, of_tensor, shards

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = 1 << 20
"""Bits of a contributor that are worked on at once."""


@dataclass(frozen=True)
class SignTensor:
    """One tensor of all contributors.

    Attributes:
        bits: for each contributor, [rows, ceil(cols / 8)] bytes in one dimension; the padding bits
            of each row are 0.
        scales: float32, [n], at least 0.
        shape: (rows, cols); a vector is one row.
    """

    bits: "Sequence[NDArray[np.uint8]]"
    scales: "NDArray[np.float32]"
    shape: tuple[int, int]

    @property
    def size(self) -> int:
        """The number of signs of a contributor."""
        return self.shape[0] * self.shape[1]

    @property
    def pitch(self) -> int:
        """Bits from one row to the next; all of the tensor's if no row has padding."""
        rows, cols = self.shape
        return self.size if rows == 1 or cols % 8 == 0 else -(-cols // 8) * 8


@dataclass(frozen=True)
class Signs:
    """Contributions of signs, see `Contributions`.

    Attributes:
        tensors: by name.
    """

    tensors: Mapping[str, SignTensor]

    def __post_init__(self) -> None:
        """Refuses scales that are none.

        Raises:
            InputError: one is negative or not finite, with tensor and contributor.
        """
        import numpy as np

        for name, tensor in self.tensors.items():
            wrong = np.flatnonzero(~((tensor.scales >= 0) & (tensor.scales < np.inf)))
            if wrong.size:
                raise InputError(
                    f"tensor {name!r}: contributor {wrong[0]} has an invalid scale: expected a "
                    f"finite number of at least 0, got {tensor.scales[wrong[0]]}"
                )

    @property
    def count(self) -> int:
        """The number of contributors."""
        return len(next(iter(self.tensors.values())).bits)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of columns of each tensor."""
        return {name: self.tensors[name].size for name in sorted(self.tensors)}

    def gram(self, *, threads: int | None = None) -> "NDArray[np.uint64]":
        """Returns the exact scalar products, [n, n, 2]."""
        import numpy as np

        from zoo.core.gram import sign_gram

        total = np.zeros((self.count, self.count, 2), np.uint64)
        for name in self.sizes:
            tensor = self.tensors[name]
            with of_tensor(name):
                distances = hamming_of(tensor, threads=threads)
                sign_gram(distances, tensor.size, tensor.scales, into=total)
        return total

    def mean(
        self, weights: "NDArray[np.float32]", *, rest: float = 0, threads: int | None = None
    ) -> Iterator[Piece]:
        """Yields the weighted mean; a contribution that changes nothing is one of scale 0."""
        import numpy as np

        from zoo.core import sign_mean

        extended = np.append(weights, np.float32(rest))
        for part in self._parts():
            more = [*part.bits, np.zeros_like(part.bits[0])]
            scales = np.append(part.scales, np.float32(0))
            with of_tensor(part.name):
                means = sign_mean(more, part.width, scales, weights=extended, threads=threads)
            yield Piece(part.name, part.start, part.without_padding(means))

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, Rows]]:
        """Yields each shard as float32 rows: sign times scale."""
        from zoo.core import unpack_signs

        for part in self._parts():
            signs = (unpack_signs(row[None], part.width, threads=threads)[0] for row in part.bits)
            pairs = zip(signs, part.scales, strict=True)
            rows = [part.without_padding(row * scale) for row, scale in pairs]
            yield part.name, part.start, rows

    def take(self, rows: list[int]) -> "Signs":
        """Returns the contributions of some contributors."""
        return Signs(
            {
                name: SignTensor([each.bits[row] for row in rows], each.scales[rows], each.shape)
                for name, each in self.tensors.items()
            }
        )

    def majority(self, *, threads: int | None = None) -> Iterator[Piece]:
        """Yields the sign that most have, times the median of the scales; a tie is minus."""
        import numpy as np

        from zoo.core import majority, unpack_signs

        for part in self._parts():
            scale = np.float32(np.median(part.scales.astype(np.float64)))
            most = majority(part.bits, part.width, threads=threads)
            signs = unpack_signs(most[None], part.width, threads=threads)[0]
            yield Piece(part.name, part.start, part.without_padding(signs * scale))

    def _parts(self) -> Iterator["_Part"]:
        for name in self.sizes:
            tensor = self.tensors[name]
            rows, cols = tensor.shape
            if tensor.pitch == tensor.size:
                for start, end in shards(tensor.size, COLUMNS):
                    yield _Part(name, tensor, start, (start, end), end - start)
                continue
            height = max(1, COLUMNS // tensor.pitch)
            for top, bottom in shards(rows, height):
                bits = (top * tensor.pitch, bottom * tensor.pitch)
                yield _Part(name, tensor, top * cols, bits, cols)


class _Part:
    """Some bits of one tensor of all contributors, whole rows of it or a part without padding.

    Attributes:
        name: the tensor's.
        start: the number of signs before it.
        width: how many bits each contributor has, padding among them.
        bits: of each contributor.
        scales: of each contributor, [n].
    """

    def __init__(
        self, name: str, tensor: SignTensor, start: int, bits: tuple[int, int], cols: int
    ) -> None:
        self.name, self.start, self.scales = name, start, tensor.scales
        self.width = bits[1] - bits[0]
        self.bits = [row[bits[0] // 8 : -(-bits[1] // 8)] for row in tensor.bits]
        self._shape = (-1, min(tensor.pitch, self.width), cols)

    def without_padding(self, values: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """Returns the values of the signs, one for each bit, without those of padding bits."""
        import numpy as np

        rows, pitch, cols = self._shape
        if pitch == cols:
            return values
        return np.ascontiguousarray(values.reshape(rows, pitch)[:, :cols]).reshape(-1)


def hamming_of(tensor: SignTensor, *, threads: int | None = None) -> "NDArray[np.uint64]":
    """Returns in how many columns each pair of contributors differs, [n, n], shard by shard."""
    import numpy as np

    from zoo.core import hamming

    total = np.zeros((len(tensor.bits), len(tensor.bits)), np.uint64)
    width = tensor.size if tensor.pitch == tensor.size else tensor.shape[0] * tensor.pitch
    for start, end in shards(width, 16 * COLUMNS):
        part = slice(start // 8, -(-end // 8))
        hamming([row[part] for row in tensor.bits], end - start, into=total, threads=threads)
    return total
