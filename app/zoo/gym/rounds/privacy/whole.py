"""Contributions as whole numbers: cut towards zero, clipped towards zero, added up exactly.

Rounding to nearest could lift a norm above the clip, and sums of floats depend on their order.
"""

from math import isqrt
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST = (1 << 31) - 1
_HALF = 1 << 16


def to_steps(values: "NDArray[np.float32]", scale: int, clip: float) -> "NDArray[np.int64]":
    """Returns values as whole numbers of steps, cut towards zero.

    Values whose norm is far above the clip are made smaller first, so that they fit into 32 bits.

    Args:
        values: any shape; finite.
        scale: steps in 1.
        clip: the largest norm.

    Raises:
        InputError: a value is not finite.
    """
    import numpy as np

    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise InputError("expected finite values, got a NaN or an infinity")
    largest = float(np.abs(wide).max(initial=0.0)) * scale
    if largest > _MOST:
        wide *= min(1.0, clip / float(np.sqrt(np.square(wide).sum())))
    return np.trunc(wide * scale).astype(np.int64)


def square_norm(steps: "NDArray[np.int64]") -> int:
    """Returns the exact sum of squares of numbers below 2^32 in size."""
    import numpy as np

    flat = np.abs(steps.reshape(-1))
    if int(flat.max(initial=0)) >= 1 << 32:
        raise ValueError("steps: expected fewer than 2^32")
    high, low = flat >> 16, flat & (_HALF - 1)
    parts = (int(np.dot(high, high)), int(np.dot(high, low)), int(np.dot(low, low)))
    return (parts[0] << 32) + (parts[1] << 17) + parts[2]


def clip_steps(steps: "NDArray[np.int64]", most: int) -> "NDArray[np.int64]":
    """Returns numbers whose Euclidean norm is at most `most`; unchanged if it was.

    Longer ones are multiplied by `most / ceil(norm)`, each product cut towards zero.

    Args:
        steps: below 2^32 in size.
        most: below 2^31.
    """
    import numpy as np

    found = square_norm(steps)
    if found <= most * most:
        return steps
    norm = isqrt(found - 1) + 1
    shrunk: NDArray[np.int64] = np.sign(steps) * (np.abs(steps) * most // norm)
    return shrunk
