"""What a contributor to a private round sends: whole numbers of all factors B, before sealing.

The line `zoo-gym private values 1`, then for each tensor of the manifest in order B [rank, out],
row by row, as signed 32-bit integers, little endian. Its length follows from the manifest, so that
it says nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.rounds.privacy.terms import PAYLOAD_LINE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.gym.rounds.protocol.manifest import Coding


def shapes_of(coding: "Coding") -> dict[str, tuple[int, ...]]:
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
