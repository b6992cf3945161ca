"""Contributions as whole numbers: cut towards zero, clipped towards zero, added up exactly.

Rounding to nearest could lift a norm above the clip, and sums of floats depend on their order.

Before it is sealed a contribution is the line `zoo-gym private values 1`, then for each tensor of
the manifest in order B [rank, out], row by row, as signed 32-bit integers, little endian. Its
length follows from the manifest, so that it says nothing.
"""

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.rounds.privacy.terms import PAYLOAD_LINE
from zoo.gym.rounds.protocol.manifest import Coding

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


def shapes_of(coding: Coding) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a round's tensors, by name."""
    return {tensor.name: tensor.shape for tensor in coding.tensors}


def encode_values(steps: "Sequence[NDArray[np.int64]]") -> bytes:
    """Returns the bytes of whole numbers below 2^31 in size, tensor after tensor."""
    return PAYLOAD_LINE + b"".join(part.astype("<i4").tobytes() for part in steps)


def decode_values(content: bytes, count: int) -> "NDArray[np.int64]":
    """Returns the whole numbers, one after the other.

    Args:
        content: the bytes.
        count: how many there are.

    Raises:
        InputError: they are of another form or length.
    """
    import numpy as np

    if len(content) != len(PAYLOAD_LINE) + 4 * count or not content.startswith(PAYLOAD_LINE):
        raise InputError(f"expected {count} whole numbers of a private round, got other bytes")
    return np.frombuffer(content, "<i4", offset=len(PAYLOAD_LINE)).astype(np.int64)
