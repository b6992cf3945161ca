"""The types of arrays in a round; whoever imports them imports no NumPy."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Gram: TypeAlias = "NDArray[np.uint64]"
"""The exact scalar products of n contributions, [n, n, 2], see `zoo.core.gram`."""

F32: TypeAlias = "NDArray[np.float32]"
"""Values of tensors, or weights of contributions."""

Whole: TypeAlias = "NDArray[np.int64]"
"""Whole numbers: those of a private round, or of a Gram matrix that was rounded."""

Bits: TypeAlias = "NDArray[np.uint8]"
"""Eight signs to a byte."""
