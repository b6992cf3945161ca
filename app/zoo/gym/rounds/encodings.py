"""The encodings of contributions, and all that rules see of them.

Plain differences in float32; low-rank factors, which are multiplied out only where a rule needs
columns; and signs, with one scale for each tensor of a contributor.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zoo.gym.errors import InputError, within
from zoo.gym.rounds.arrays import F32, Bits, Gram

SHARD = 1 << 16
"""Columns of a shard, a multiple of `zoo.core.gram.SHARD_COLUMNS`.

The rows of contributions may be views of mapped files: n rows of a shard are read at once.
"""


@dataclass(frozen=True)
class Piece:
    """Some columns of one tensor of a result.

    Attributes:
        start: the first column; a tensor's values are taken row by row.
        values: float32, [columns].
    """

    tensor: str
    start: int
    values: F32


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

    def gram(self, *, threads: int | None = None) -> Gram:
        """Returns the exact scalar products, [n, n, 2], see `zoo.core.gram`.

        Raises:
            InputError: a value or scale that is not finite, or a squared norm of 2^40 or more, with
                the tensor's name and the contributor's number.
        """
        ...

    def mean(self, weights: F32, *, rest: float = 0, threads: int | None = None) -> Iterator[Piece]:
        """Yields the weighted mean of the contributions.

        Args:
            weights: [n], at least 0.
            rest: the weight of one more contribution, which changes nothing.
        """
        import numpy as np

        from zoo.core import weighted_mean

        extended = np.append(weights, np.float32(rest))
        for name, start, rows in self.columns(threads=threads):
            more = [*rows, np.zeros_like(rows[0])]
            with within(f"tensor {name!r}"):
                yield Piece(name, start, weighted_mean(more, extended, threads=threads))

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, "Rows"]]:
        """Yields each shard as plain rows: tensor, first column, n rows of float32."""
        ...

    def take(self, rows: list[int]) -> "Contributions":
        """Returns the contributions of these contributors."""
        ...


Rows = list[F32]
"""One array for each contributor, [columns]."""


def shards(columns: int, size: int = SHARD) -> Iterator[tuple[int, int]]:
    """Yields start and end of each shard of a tensor."""
    for start in range(0, columns, size):
        yield start, min(columns, start + size)


@dataclass(frozen=True)
class Floats(Contributions):
    """Contributions of plain differences.

    Attributes:
        tensors: by name, one array for each contributor, [columns].
    """

    tensors: "Mapping[str, Sequence[F32]]"

    @property
    def count(self) -> int:
        """The number of contributors."""
        return len(next(iter(self.tensors.values())))

    @property
    def sizes(self) -> dict[str, int]:
        """The number of columns of each tensor."""
        return {name: self.tensors[name][0].size for name in sorted(self.tensors)}

    def gram(self, *, threads: int | None = None) -> Gram:
        """Returns the exact scalar products, [n, n, 2]."""
        import numpy as np

        from zoo.core.gram import float_gram

        total = np.zeros((self.count, self.count, 2), np.uint64)
        for name, _, rows in self.columns():
            with within(f"tensor {name!r}"):
                float_gram(rows, into=total, threads=threads)
        return total

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


@dataclass(frozen=True)
class Factors:
    """One tensor of all contributors; ranks may differ.

    Attributes:
        a: float32, [rank, inputs] for each contributor.
        b: [rank, outputs], transposed.
    """

    a: "Sequence[F32]"
    b: "Sequence[F32]"


@dataclass(frozen=True)
class LowRank(Contributions):
    """Contributions of factors."""

    tensors: Mapping[str, Factors]

    @property
    def count(self) -> int:
        """The number of contributors."""
        return len(next(iter(self.tensors.values())).a)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of columns of each tensor, multiplied out."""
        return {
            name: factors.a[0].shape[1] * factors.b[0].shape[1]
            for name, factors in sorted(self.tensors.items())
        }

    def gram(self, *, threads: int | None = None) -> Gram:
        """Returns the exact scalar products, [n, n, 2], from the factors alone."""
        import numpy as np

        from zoo.core.gram import lowrank_gram

        total = np.zeros((self.count, self.count, 2), np.uint64)
        for name in self.sizes:
            with within(f"tensor {name!r}"):
                tensor = self.tensors[name]
                lowrank_gram(tensor.a, tensor.b, into=total, threads=threads)
        return total

    def columns(self, *, threads: int | None = None) -> Iterator[tuple[str, int, Rows]]:
        """Yields some outputs at a time, multiplied out in the core's fixed order."""
        import numpy as np

        from zoo.core import add_product

        for name in self.sizes:
            tensor = self.tensors[name]
            inputs, outputs = tensor.a[0].shape[1], tensor.b[0].shape[1]
            height = max(1, SHARD // inputs)
            for top in range(0, outputs, height):
                part = slice(top, min(outputs, top + height))
                rows: Rows = []
                for a, b in zip(tensor.a, tensor.b, strict=True):
                    total = np.zeros((part.stop - part.start, inputs), np.float32)
                    add_product(a, np.ascontiguousarray(b[:, part]), total, threads=threads)
                    rows.append(total.reshape(-1))
                yield name, top * inputs, rows

    def take(self, rows: list[int]) -> "LowRank":
        """Returns the contributions of some contributors."""
        return LowRank(
            {
                name: Factors([each.a[row] for row in rows], [each.b[row] for row in rows])
                for name, each in self.tensors.items()
            }
        )


SIGN_COLUMNS = 1 << 20
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

    bits: "Sequence[Bits]"
    scales: F32
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
    """Contributions of signs, see `Contributions`."""

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
                    f"finite number of at least 0, got {tensor.scales[wrong[0]]}",
                    code="rounds.invalid_scale",
                )

    @property
    def count(self) -> int:
        """The number of contributors."""
        return len(next(iter(self.tensors.values())).bits)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of columns of each tensor."""
        return {name: self.tensors[name].size for name in sorted(self.tensors)}

    def gram(self, *, threads: int | None = None) -> Gram:
        """Returns the exact scalar products, [n, n, 2]."""
        import numpy as np

        from zoo.core.gram import sign_gram

        total = np.zeros((self.count, self.count, 2), np.uint64)
        for name in self.sizes:
            tensor = self.tensors[name]
            with within(f"tensor {name!r}"):
                distances = hamming_of(tensor, threads=threads)
                sign_gram(distances, tensor.size, tensor.scales, into=total)
        return total

    def mean(self, weights: F32, *, rest: float = 0, threads: int | None = None) -> Iterator[Piece]:
        """Yields the weighted mean; a contribution that changes nothing is one of scale 0."""
        import numpy as np

        from zoo.core import sign_mean

        extended = np.append(weights, np.float32(rest))
        for part in self._parts():
            more = [*part.bits, np.zeros_like(part.bits[0])]
            scales = np.append(part.scales, np.float32(0))
            with within(f"tensor {part.name!r}"):
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

    def _parts(self) -> Iterator["_SignPart"]:
        for name in self.sizes:
            tensor = self.tensors[name]
            rows, cols = tensor.shape
            if tensor.pitch == tensor.size:
                for start, end in shards(tensor.size, SIGN_COLUMNS):
                    yield _SignPart(name, tensor, start, (start, end), end - start)
                continue
            height = max(1, SIGN_COLUMNS // tensor.pitch)
            for top, bottom in shards(rows, height):
                bits = (top * tensor.pitch, bottom * tensor.pitch)
                yield _SignPart(name, tensor, top * cols, bits, cols)


class _SignPart:
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

    def without_padding(self, values: F32) -> F32:
        """Returns the values of the signs, one for each bit, without those of padding bits."""
        import numpy as np

        rows, pitch, cols = self._shape
        if pitch == cols:
            return values
        return np.ascontiguousarray(values.reshape(rows, pitch)[:, :cols]).reshape(-1)


def hamming_of(tensor: SignTensor, *, threads: int | None = None) -> Gram:
    """Returns in how many columns each pair of contributors differs, [n, n], shard by shard."""
    import numpy as np

    from zoo.core import hamming

    total = np.zeros((len(tensor.bits), len(tensor.bits)), np.uint64)
    width = tensor.size if tensor.pitch == tensor.size else tensor.shape[0] * tensor.pitch
    for start, end in shards(width, 16 * SIGN_COLUMNS):
        part = slice(start // 8, -(-end // 8))
        hamming([row[part] for row in tensor.bits], end - start, into=total, threads=threads)
    return total
