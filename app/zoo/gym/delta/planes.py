"""One plane of signs, with any scale and either treatment of zeros.

Scales per column and group, and masks, are worked out here in NumPy, by the definition in
`docs/reference/delta-format.md`; the rest in zoo.core.
"""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from zoo.gym.delta.kinds import GROUP, Scale
from zoo.gym.delta.stored import Stored, change_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Axis: TypeAlias = Literal["row", "matrix"]
Float = TypeVar("Float", bound="np.floating[Any]")

_IN_CORE = {"row", "matrix"}
_BLOCK, _LANES, _COLUMN_BLOCK = 4096, 32, 128


def pack_plane(
    base: Stored, tuned: Stored, scale: Scale, *, mask: bool
) -> "tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint8] | None]":
    """Returns bits, scales and, where asked for, the mask of a matrix's difference.

    Raises:
        InputError: a value is not finite, or the mean difference overflows float32.
    """
    import numpy as np

    from zoo.core import pack_signs

    if not mask and scale in _IN_CORE:
        coded = pack_signs(
            base.values,
            tuned.values,
            scale=cast("Axis", scale),
            base_dtype=base.dtype,
            tuned_dtype=tuned.dtype,
        )
        return *coded, None
    d = change_of(base, tuned)
    bits = np.packbits(d > 0, axis=1, bitorder="little")
    nonzero = d != 0
    counted = nonzero if mask else np.ones(d.shape, bool)
    sums, counts = _sums(np.abs(d), counted, scale)
    scales = np.where(counts > 0, sums / np.maximum(counts, 1), 0.0).astype(np.float32)
    return bits, scales, np.packbits(nonzero, axis=1, bitorder="little") if mask else None


def add_plane(
    total: "NDArray[np.float32]",
    bits: "NDArray[np.uint8]",
    scales: "NDArray[np.float32]",
    scale: Scale,
    mask: "NDArray[np.uint8] | None",
) -> None:
    """Adds plus or minus the scales to some rows, in place; nothing where the mask is 0."""
    import numpy as np

    from zoo.core import apply_signs, unpack_signs

    if mask is None and scale in _IN_CORE:
        apply_signs(total, bits, scales)
        return
    columns = total.shape[1]
    signs = unpack_signs(bits, columns)
    if scale == "group":
        signs *= np.repeat(scales, GROUP, axis=1)[:, :columns]
    else:
        signs *= scales[:, None] if scale == "row" else scales
    if mask is not None:
        signs *= np.unpackbits(mask, axis=1, count=columns, bitorder="little")
    total += signs


def _sums(
    sizes: "NDArray[np.float32]", counted: "NDArray[np.bool_]", scale: Scale
) -> "tuple[NDArray[np.float64], NDArray[np.int64]]":
    """Adds up sizes in the defined order, and counts."""
    import numpy as np

    if scale == "column":
        blocks = range(0, len(sizes), _COLUMN_BLOCK)
        parts = [_in_order(sizes[start : start + _COLUMN_BLOCK]) for start in blocks]
        return _in_order(np.array(parts, np.float64)), counted.sum(axis=0)
    width = GROUP if scale == "group" else _BLOCK
    runs = range(0, sizes.shape[1], width)
    sums = np.stack([_lane_sums(sizes[:, start : start + width]) for start in runs], axis=1)
    if scale == "group":
        return sums, np.stack([counted[:, run : run + width].sum(axis=1) for run in runs], axis=1)
    rows = _in_order(sums.T)
    if scale == "matrix":
        return _in_order(rows[:, None]), counted.sum(keepdims=True)[0]
    return rows, counted.sum(axis=1)


def _lane_sums(sizes: "NDArray[np.float32]") -> "NDArray[np.float64]":
    """Sums each row: value i to lane i mod 32 in float32, the lanes in order in float64."""
    import numpy as np

    room = np.zeros((len(sizes), -(-sizes.shape[1] // _LANES) * _LANES), np.float32)
    room[:, : sizes.shape[1]] = sizes
    steps = room.reshape(len(sizes), -1, _LANES).transpose(1, 0, 2)
    return _in_order(_in_order(steps).T.astype(np.float64))


def _in_order(values: "NDArray[Float]") -> "NDArray[Float]":
    """Adds along the first dimension, one after the other."""
    total: NDArray[Float] = values[0].copy()
    for value in values[1:]:
        total += value
    return total
