"""The memory bandwidth of this machine, measured with minimal work.

Time these next to a kernel on the same buffers: a kernel that reads two streams cannot be faster
than `read`, one that changes its data in place not faster than `in_place`. Limits of the
instructions alone, without memory, are measured per kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.core import _core
from zoo.core.arrays import as_numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.arrays import Array
    from zoo.core.isa import Isa


def read(first: Array, second: Array, *, isa: Isa | None = None, threads: int | None = None) -> int:
    """Reads two arrays of the same size and returns the exclusive or of their 64-bit words.

    Raises:
        InputError: they have different sizes.
        ValueError: memory that cannot be borrowed.
    """
    return _core.limit_read(_bytes("first", first), _bytes("second", second), isa, threads)


def in_place(data: Array, *, isa: Isa | None = None, threads: int | None = None) -> None:
    """Flips every bit of an array, in place: load, exclusive or, store.

    Raises:
        ValueError: memory that cannot be borrowed or written.
    """
    _core.limit_in_place(_bytes("data", data, writable=True), isa, threads)


def _bytes(name: str, array: Array, *, writable: bool = False) -> NDArray[np.uint8]:
    """Returns an array's memory as bytes; refuses a non-contiguous one, which would be copied."""
    import numpy as np

    memory, _ = as_numpy(name, array, writable=writable)
    if not memory.flags.c_contiguous:
        raise ValueError(f"{name} cannot be borrowed: expected contiguous memory, got strides")
    return memory.reshape(-1).view(np.uint8)
