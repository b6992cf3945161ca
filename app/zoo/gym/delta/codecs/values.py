"""A tensor's values in their stored type, and their differences between base and fine-tune.

`zoo.gym.delta.reading.weights.read_values` reads them from files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.gym.delta.codecs.floats import blocks, from_bf16, refuse_not_finite
from zoo.gym.delta.codecs.sparse import Steps, steps_to

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core import DType

Parts: TypeAlias = "Mapping[str, NDArray[Any]]"
"""The parts of a tensor's terms, by their names without the tensor's: `sign`, `A.codes` ..."""

_KINDS: "dict[str, Literal['F32', 'F16', 'BF16']]" = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


@dataclass(frozen=True)
class Values:
    """A tensor's values; bfloat16 is stored as uint16.

    Attributes:
        values: a contiguous array; may be a view of a file.
        dtype: their type by its name in zoo.core.
        name: their name in messages.
    """

    values: "NDArray[Any]"
    dtype: "DType"
    name: str

    def reshape(self, shape: tuple[int, ...]) -> "Values":
        """Returns the same values in another shape."""
        return Values(self.values.reshape(shape), self.dtype, self.name)

    def float32(self, part: slice) -> "NDArray[np.float32]":
        """Returns a slice of the flattened values as a float32 copy; exact."""
        import numpy as np

        flat = self.values.reshape(-1)[part]
        return from_bf16(flat) if self.dtype == "bf16" else flat.astype(np.float32)


def change_of(base: Values, tuned: Values) -> "NDArray[np.float32]":
    """Returns tuned - base in float32, in their shape.

    Raises:
        InputError: a value is not finite.
    """
    everything = slice(0, base.values.size)
    shape = base.values.shape
    base_values, tuned_values = (side.float32(everything).reshape(shape) for side in (base, tuned))
    for values, side in ((base_values, base), (tuned_values, tuned)):
        refuse_not_finite(values, side.name)
    change = tuned_values - base_values
    refuse_not_finite(change, "difference")
    return change


def changed_values(
    base: Values, tuned: Values
) -> "tuple[Steps, NDArray[Any], Literal['F32', 'F16', 'BF16']]":
    """Returns where the fine-tune's values differ in any bit, and those values as stored.

    Raises:
        InputError: a value is not finite.
    """
    import numpy as np

    flat = tuned.values.reshape(-1)
    values: list[NDArray[Any]] = [flat[:0]]

    def places() -> "Iterator[NDArray[np.int64]]":
        for part in blocks(flat.size):
            base_values, tuned_values = base.float32(part), tuned.float32(part)
            for side, read in ((base, base_values), (tuned, tuned_values)):
                refuse_not_finite(read, f"{side.name}: from value {part.start}")
            changed = np.flatnonzero(base_values.view(np.uint32) != tuned_values.view(np.uint32))
            values.append(flat[part][changed])
            yield changed + part.start

    steps = steps_to(places())
    return steps, np.concatenate(values), _KINDS[tuned.dtype]
