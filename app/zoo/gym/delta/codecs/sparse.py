"""Encodes the indices of the few weights that a fine-tune changed, as steps of one or two bytes.

A step of `largest` (255 or 65535) advances without a value; any other e advances e + 1 indices to
the next value. Indices are computed in blocks, so memory grows only with the number of changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PIECE = 1 << 18


@dataclass(frozen=True)
class Steps:
    """Indices as steps.

    Attributes:
        index: the steps, uint8 or uint16.
        kind: their type's name in a file.
    """

    index: "NDArray[Any]"
    kind: Literal["U8", "U16"]


def steps_to(places: "Iterator[NDArray[np.int64]]") -> Steps:
    """Encodes ascending indices, given in blocks, as steps of one or two bytes (the shorter)."""
    import numpy as np

    short: list[NDArray[Any]] = [np.empty(0, np.uint8)]
    long: list[NDArray[Any]] = [np.empty(0, np.uint16)]
    last = -1
    for piece in places:
        if piece.size:
            distances = np.diff(piece, prepend=last)
            short.append(_steps(distances, np.dtype(np.uint8)))
            long.append(_steps(distances, np.dtype(np.uint16)))
            last = int(piece[-1])
    if sum(part.nbytes for part in short) <= sum(part.nbytes for part in long):
        return Steps(np.concatenate(short), "U8")
    return Steps(np.concatenate(long), "U16")


def _steps(distances: "NDArray[np.int64]", dtype: "np.dtype[Any]") -> "NDArray[Any]":
    import numpy as np

    largest = np.iinfo(dtype).max
    skips = (distances - 1) // largest
    ends = np.cumsum(skips + 1)
    steps = np.full(int(ends[-1]), largest, dtype)
    steps[ends - 1] = distances - skips * largest - 1
    return steps


def places_of(index: "NDArray[Any]") -> "Iterator[NDArray[np.int64]]":
    """Yields the indices that steps encode, in blocks."""
    import numpy as np

    largest, last = np.iinfo(index.dtype).max, -1
    for start in range(0, index.size, _PIECE):
        piece = index[start : start + _PIECE]
        valued = piece != largest
        reached = np.cumsum(piece + valued.astype(np.int64)) + last
        yield reached[valued]
        last = int(reached[-1])


def within(index: "NDArray[Any]", start: int, stop: int) -> "tuple[slice, NDArray[np.int64]]":
    """Returns which values have indices from `start` to `stop`, and their indices from `start`."""
    import numpy as np

    offset, parts = 0, [np.empty(0, np.int64)]
    for places in places_of(index):
        low, high = np.searchsorted(places, (start, stop))
        offset += int(low)
        parts.append(places[low:high] - start)
        if high < places.size:
            break
    inside = np.concatenate(parts)
    return slice(offset, offset + inside.size), inside
