"""Two-bit codes in groups along a row, each group with a float16 scale and a zero point.

A value reads back as `(code - zero / 64) * scale`. How scale, zero and code are chosen, to the last
bit, is defined in `core-rs/src/codes.rs`; no value is more than half a step (scale / 2) off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.core import _core
from zoo.core.arrays import check_array, check_shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pack_codes2(
    values: NDArray[np.float32], *, group: int = 128
) -> tuple[NDArray[np.uint8], NDArray[np.float16], NDArray[np.uint8]]:
    """Packs a matrix into two-bit codes.

    Args:
        values: [rows, cols], contiguous, at least one value.
        group: values that share a scale along a row; a row's last group is shorter.

    Returns:
        Codes [rows, ceil(cols / 4)], four to a byte, lowest bits first, each row padded with zeros;
        scales and zeros, both [rows, ceil(cols / group)].

    Raises:
        InputError: no value at all, a NaN or infinity (told with row and column, counted from 0),
            or a group whose values lie further apart than float16 can scale.
        TypeError: not float32.
        ValueError: memory that cannot be lent, or a group below 1.
    """
    import numpy as np

    check_array("values", values, "float32")
    _check_group(group)
    rows, cols = values.shape
    groups = -(-cols // group)
    codes = np.empty((rows, -(-cols // 4)), np.uint8)
    scales = np.empty((rows, groups), np.float16)
    zeros = np.empty((rows, groups), np.uint8)
    _core.pack_codes2(values, cols, group, codes, scales.view(np.uint16), zeros)
    return codes, scales, zeros


def unpack_codes2(
    codes: NDArray[np.uint8],
    scales: NDArray[np.float16],
    zeros: NDArray[np.uint8],
    *,
    cols: int,
    group: int = 128,
) -> NDArray[np.float32]:
    """Reads a matrix back from two-bit codes.

    Args:
        codes: [rows, ceil(cols / 4)].
        scales: [rows, ceil(cols / group)], finite.
        zeros: the same shape, in 64ths of a step.
        cols: values in a row.
        group: values that share a scale along a row.

    Returns:
        [rows, cols] in float32; each value is exact.

    Raises:
        InputError: shapes that disagree, or a scale that is NaN or infinite (its row, and its group
            as the column).
        TypeError: an array of another type than expected.
        ValueError: memory that cannot be lent, or a group below 1.
    """
    import numpy as np

    _check_group(group)
    check_array("codes", codes, "uint8")
    check_array("scales", scales, "float16")
    check_array("zeros", zeros, "uint8")
    rows = codes.shape[0]
    check_shape("codes", codes, (rows, -(-cols // 4)))
    check_shape("scales", scales, (rows, -(-cols // group)))
    check_shape("zeros", zeros, scales.shape)
    values = np.empty((rows, cols), np.float32)
    _core.unpack_codes2(codes, scales.view(np.uint16), zeros, cols, group, values)
    return values


def _check_group(group: int) -> None:
    if group < 1:
        raise ValueError(f"group is too small: expected at least 1, got {group}")
