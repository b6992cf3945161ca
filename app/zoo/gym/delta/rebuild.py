"""Computes the tensors of base plus delta, and the loss from rounding them to bfloat16.

It works in blocks of rows, so that no full matrix is in memory as float32. `apply` writes the
model folder.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.gym.delta.codecs.floats import blocks, finite_bf16, from_bf16, to_bf16
from zoo.gym.delta.codecs.tensor import apply_rows, decode_rows
from zoo.gym.delta.codecs.values import Parts
from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.delta.file.terms import TensorTerms, rows_and_columns
from zoo.gym.delta.file.writer import ITEM_BYTES, Entry
from zoo.gym.delta.reading.weights import FLOATS, Weights, read_values, stored_bytes
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OutType: TypeAlias = Literal["f32", "bf16"]

NAMES: dict[OutType, tuple[str, str]] = {"f32": ("F32", "float32"), "bf16": ("BF16", "bfloat16")}
"""The names of the types in safetensors and in a model's config."""

PIECE_WEIGHTS = 1 << 22
"""The approximate number of weights in memory as float32 at once."""

ROWS_AT_ONCE = 1024
"""Blocks end at multiples of this, as the blocks of a product of factors do."""


@dataclass
class Rebuild:
    """One pass over the base, which accumulates the rounding loss."""

    delta: Delta
    base: Weights
    dtype: OutType
    scaled: float
    lost_squares: float = 0.0
    delta_squares: float = 0.0
    terms: dict[str, TensorTerms] = field(init=False)

    def __post_init__(self) -> None:
        self.terms = {tensor.name: tensor for tensor in self.delta.header.tensors}

    def entry(self, name: str) -> Entry:
        """Returns the entry of a tensor in the new folder; integers keep their type."""
        stored = self.base.dtype(name)
        if stored not in ITEM_BYTES:
            where = f"{self.base.source}: tensor {name!r}"
            raise InputError(
                f"{where}: expected an unquantised type, got {stored!r}", code="delta.bad_type"
            )
        return Entry(
            name, NAMES[self.dtype][0] if stored in FLOATS else stored, self.base.shape(name)
        )

    def pieces(self, name: str) -> "Iterator[NDArray[Any]]":
        """Yields a tensor of the rebuilt model in the output type, in blocks of rows."""
        if self.base.dtype(name) not in FLOATS:
            yield stored_bytes(self.base, name)
            return
        base_values = read_values(self.base, name).reshape(rows_and_columns(self.base.shape(name)))
        rows, columns = base_values.values.shape
        tensor = self.terms.get(name)
        parts = tensor_parts(self.delta, tensor) if tensor else {}
        step = max(1, PIECE_WEIGHTS // max(1, columns) // ROWS_AT_ONCE) * ROWS_AT_ONCE
        for start in range(0, rows, step):
            block = slice(start, min(rows, start + step))
            values = base_values.float32(slice(block.start * columns, block.stop * columns))
            values = values.reshape(block.stop - block.start, columns)
            if tensor is None:
                yield self._kept(name, values)
            else:
                yield self._changed(tensor, parts, block, values)

    def _changed(
        self, tensor: TensorTerms, parts: Parts, rows: slice, values: "NDArray[np.float32]"
    ) -> "NDArray[Any]":
        import numpy as np

        changed = values if self.dtype == "f32" else values.copy()
        apply_rows(tensor, parts, rows, changed, scaled=self.scaled)
        written = self._in_type(tensor.name, changed)
        if self.dtype == "bf16":
            change = decode_rows(tensor, parts, rows, values)
            change *= np.float32(self.scaled)
            self._add_loss(values.reshape(-1), written.reshape(-1), change.reshape(-1))
        return written

    def _kept(self, name: str, values: "NDArray[np.float32]") -> "NDArray[Any]":
        """Converts values of the base; infinite ones, such as the bounds of a clamp, stay."""
        import numpy as np

        infinite = np.isinf(values)
        if not infinite.any():
            return self._in_type(name, values)
        written = self._in_type(name, np.where(infinite, np.float32(0), values))
        return np.where(infinite, values if self.dtype == "f32" else to_bf16(values), written)

    def _in_type(self, name: str, values: "NDArray[np.float32]") -> "NDArray[Any]":
        """Converts new values to the output type, and checks that they are finite."""
        import numpy as np

        if not np.isfinite(values).all():
            self._refuse(name, "float32")
        if self.dtype == "f32":
            return values
        rounded = to_bf16(values)
        if not finite_bf16(rounded):
            self._refuse(name, "bfloat16", hint="they fit in float32: --dtype f32")
        return rounded

    def _refuse(self, name: str, dtype: str, hint: str | None = None) -> None:
        source, got = self.delta.path, "base plus delta"
        if name not in self.terms or not self.terms[name].terms:
            source, got = self.base.source, "values"
        message = f"tensor {name!r}: expected finite weights, got {got} beyond {dtype}"
        raise InputError(f"{source}: {message}", hint=hint, code="delta.not_finite")

    def _add_loss(
        self,
        values: "NDArray[np.float32]",
        rounded: "NDArray[np.uint16]",
        change: "NDArray[np.float32]",
    ) -> None:
        for block in blocks(values.size):
            stored = from_bf16(rounded[block]) - from_bf16(to_bf16(values[block]))
            lost = (stored - change[block]).astype("f8")
            exact = change[block].astype("f8")
            self.lost_squares += float(lost @ lost)
            self.delta_squares += float(exact @ exact)

    def rounding_loss(self) -> float | None:
        """Returns the rounding loss of the finished pass; None for float32."""
        if self.dtype == "f32":
            return None
        return sqrt(self.lost_squares / self.delta_squares) if self.delta_squares else 0.0


@dataclass(frozen=True)
class Interpolation:
    """A part of the way from a base to a fine-tune, in float32."""

    base: Weights
    tuned: Weights
    share: float

    def entry(self, name: str) -> Entry:
        """Returns the entry of a tensor in the new folder; integers keep their type."""
        stored = self.base.dtype(name)
        return Entry(name, "F32" if stored in FLOATS else stored, self.base.shape(name))

    def pieces(self, name: str) -> "Iterator[NDArray[Any]]":
        """Yields base + share * (tuned - base), in blocks; what the fine-tune lacks is the base."""
        import numpy as np

        if self.base.dtype(name) not in FLOATS:
            yield stored_bytes(self.base, name)
            return
        base = read_values(self.base, name)
        tuned = read_values(self.tuned, name) if name in self.tuned.tensors else base
        for block in blocks(base.values.size):
            values, changed = base.float32(block), tuned.float32(block)
            same = changed == values  # also infinite ones
            with np.errstate(invalid="ignore"):
                yield np.where(same, values, values + np.float32(self.share) * (changed - values))


def difference(
    delta: Delta,
    tensor: TensorTerms,
    *,
    scaled: float = 1.0,
    base: "NDArray[np.float32] | None" = None,
) -> "NDArray[np.float32]":
    """Returns what the delta adds to a tensor, float32 in the tensor's shape.

    Args:
        delta: the file.
        tensor: one of `delta.header.tensors`.
        scaled: the factor for the difference, in float32.
        base: the base's tensor; needed only for a sparse term, which contains the fine-tune's own
            values.

    Raises:
        ValueError: a sparse term without the base.
    """
    import numpy as np

    rows, columns = rows_and_columns(tensor.shape)
    matrix = None if base is None else base.reshape(rows, columns)
    total = decode_rows(tensor, tensor_parts(delta, tensor), slice(0, rows), matrix)
    total = total.reshape(tensor.shape)
    return total if scaled == 1.0 else total * np.float32(scaled)
