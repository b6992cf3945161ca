"""Converts between float32 and bfloat16 (stored as uint16), and checks for finite values.

Rounding is to nearest, ties to even. Rounding works in blocks that fit in a core's cache.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK = 1 << 15


def to_bf16(values: "NDArray[np.float32]") -> "NDArray[np.uint16]":
    """Rounds finite float32 values to bfloat16, to nearest even."""
    import numpy as np

    rounded = np.empty(values.shape, np.uint16)
    bits, flat = values.view(np.uint32).reshape(-1), rounded.reshape(-1)
    for block in blocks(flat.size):
        part = bits[block]
        flat[block] = (part + (0x7FFF + (part >> 16 & 1))) >> 16
    return rounded


def finite_bf16(values: "NDArray[np.uint16]") -> bool:
    """Returns whether bfloat16 values, stored as uint16, are all finite."""
    return bool(((values & 0x7F80) != 0x7F80).all())


def from_bf16(values: "NDArray[np.uint16]") -> "NDArray[np.float32]":
    """Widens bfloat16 values, stored as uint16, to float32; exact."""
    import numpy as np

    widened = values.astype(np.uint32)
    widened <<= 16
    return widened.view(np.float32)


def widened(values: "NDArray[Any]") -> "NDArray[np.float32]":
    """Returns floats of a file (bfloat16 as uint16) as float32; exact."""
    import numpy as np

    return from_bf16(values) if values.dtype == np.uint16 else values.astype(np.float32)


def blocks(size: int) -> Iterator[slice]:
    """Splits a long array into blocks that fit in a core's cache."""
    for start in range(0, size, _BLOCK):
        yield slice(start, start + _BLOCK)


def refuse_not_finite(values: "NDArray[np.float32]", where: str) -> None:
    """Refuses an array with a NaN or an infinity.

    Raises:
        InputError: the message has `where` and the index of the first one.
    """
    import numpy as np

    finite = np.isfinite(values)
    if finite.all():
        return
    index = tuple(int(i) for i in np.argwhere(~finite)[0])
    raise InputError(
        f"{where}: expected finite values, got {values[index]} at {list(index)}",
        code="delta.not_finite",
    )
