"""Computes the tensors of base plus delta, and what rounding them to bfloat16 costs.

In pieces of rows, so that no whole matrix is in memory as float32. Writing them as a model folder
is `apply`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.gym.delta.codecs.floats import blocks, finite_bf16, from_bf16, to_bf16
from zoo.gym.delta.codecs.tensor import apply_rows, decode_rows
from zoo.gym.delta.codecs.values import Parts
from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.delta.file.safetensors import ITEM_BYTES, Entry
from zoo.gym.delta.file.terms import TensorTerms, rows_and_columns
from zoo.gym.delta.reading.weights import FLOATS, Weights, read_values, stored_bytes
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OutType: TypeAlias = Literal["f32", "bf16"]

NAMES: dict[OutType, tuple[str, str]] = {"f32": ("F32", "float32"), "bf16": ("BF16", "bfloat16")}
"""What safetensors and a model's config call the type."""

PIECE_WEIGHTS = 1 << 22
"""Weights of a matrix that are in memory as float32 at once, about."""

ROWS_AT_ONCE = 1024
"""Pieces end at multiples of this, where a product of factors is cut as well."""


@dataclass
class Rebuild:
    """One pass over the base; adds up what rounding costs on the way."""

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
        """Returns how a tensor will stand in the new folder; integers stay as they are."""
        stored = self.base.dtype(name)
        if stored not in ITEM_BYTES:
            where = f"{self.base.source}: tensor {name!r}"
            raise InputError(f"{where}: expected a plain type, got {stored!r}")
        return Entry(
            name, NAMES[self.dtype][0] if stored in FLOATS else stored, self.base.shape(name)
        )

    def pieces(self, name: str) -> "Iterator[NDArray[Any]]":
        """Yields a tensor of the rebuilt model in the type that is written, in blocks of rows."""
        if self.base.dtype(name) not in FLOATS:
            yield stored_bytes(self.base, name)
            return
        before = read_values(self.base, name).reshape(rows_and_columns(self.base.shape(name)))
        rows, columns = before.values.shape
        tensor = self.terms.get(name)
        parts = tensor_parts(self.delta, tensor) if tensor else {}
        step = max(1, PIECE_WEIGHTS // max(1, columns) // ROWS_AT_ONCE) * ROWS_AT_ONCE
        for start in range(0, rows, step):
            block = slice(start, min(rows, start + step))
            values = before.float32(slice(block.start * columns, block.stop * columns))
            values = values.reshape(block.stop - block.start, columns)
            if tensor is None:
                yield self._in_type(name, values)
            else:
                yield self._changed(tensor, parts, block, values)

    def _changed(
        self, tensor: TensorTerms, parts: Parts, rows: slice, values: "NDArray[np.float32]"
    ) -> "NDArray[Any]":
        import numpy as np

        after = values if self.dtype == "f32" else values.copy()
        apply_rows(tensor, parts, rows, after, scaled=self.scaled)
        written = self._in_type(tensor.name, after)
        if self.dtype == "bf16":
            change = decode_rows(tensor, parts, rows, values)
            change *= np.float32(self.scaled)
            self._add_loss(values.reshape(-1), written.reshape(-1), change.reshape(-1))
        return written

    def _in_type(self, name: str, values: "NDArray[np.float32]") -> "NDArray[Any]":
        """Returns what is written of a tensor's new values; all of it passes through here."""
        import numpy as np

        if not np.isfinite(values).all():
            self._refuse(name, "float32")
        if self.dtype == "f32":
            return values
        rounded = to_bf16(values)
        if not finite_bf16(rounded):
            self._refuse(name, "bfloat16", hint="--dtype f32 has room for them")
        return rounded

    def _refuse(self, name: str, dtype: str, hint: str | None = None) -> None:
        source, got = self.delta.path, "base plus delta"
        if name not in self.terms or not self.terms[name].terms:
            source, got = self.base.source, "values"
        message = f"tensor {name!r}: expected finite weights, got {got} beyond {dtype}"
        raise InputError(f"{source}: {message}", hint=hint)

    def _add_loss(
        self,
        values: "NDArray[np.float32]",
        rounded: "NDArray[np.uint16]",
        change: "NDArray[np.float32]",
    ) -> None:
        for block in blocks(values.size):
            kept = from_bf16(rounded[block]) - from_bf16(to_bf16(values[block]))
            lost = (kept - change[block]).astype("f8")
            wanted = change[block].astype("f8")
            self.lost_squares += float(lost @ lost)
            self.delta_squares += float(wanted @ wanted)

    def rounding_loss(self) -> float | None:
        """Returns what the finished pass found; None for float32."""
        if self.dtype == "f32":
            return None
        return sqrt(self.lost_squares / self.delta_squares) if self.delta_squares else 0.0


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
        scaled: what the whole difference is multiplied by, in float32.
        base: the base's tensor; only a sparse term, which holds the fine-tune's own values, asks
            for it.

    Raises:
        ValueError: a sparse term without the base.
    """
    import numpy as np

    rows, columns = rows_and_columns(tensor.shape)
    matrix = None if base is None else base.reshape(rows, columns)
    total = decode_rows(tensor, tensor_parts(delta, tensor), slice(0, rows), matrix)
    total = total.reshape(tensor.shape)
    return total if scaled == 1.0 else total * np.float32(scaled)
