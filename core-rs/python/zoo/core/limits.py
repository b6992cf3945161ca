"""What this machine's memory allows, measured with work that does next to nothing.

Time these beside a kernel, on the same buffers: one that reads two streams cannot be faster than
`read`, one that changes its data in place not faster than `in_place`. What the instructions alone
allow, without memory, belongs to each kernel.
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
        InputError: they differ in size.
        ValueError: memory that cannot be lent.
    """
    return _core.limit_read(_bytes("first", first), _bytes("second", second), isa, threads)


def in_place(data: Array, *, isa: Isa | None = None, threads: int | None = None) -> None:
    """Flips every bit of an array, in place: load, exclusive or, store.

    Raises:
        ValueError: memory that cannot be lent or written.
    """
    _core.limit_in_place(_bytes("data", data, writable=True), isa, threads)


def _bytes(name: str, array: Array, *, writable: bool = False) -> NDArray[np.uint8]:
    """Returns an array's memory as bytes; one with gaps is refused, as it would be copied."""
    import numpy as np

    memory, _ = as_numpy(name, array, writable=writable)
    if not memory.flags.c_contiguous:
        raise ValueError(f"{name} cannot be lent: expected contiguous memory, got one with strides")
    return memory.reshape(-1).view(np.uint8)
