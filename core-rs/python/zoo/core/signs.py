"""The sign of a difference as one bit, and a scale for each row or for the whole matrix.

`tuned - base` in float32; a bit is 1 where the difference is above zero (zeros of either sign give
0), least significant first along a row, each row padded to whole bytes with zeros. The scale is the
mean absolute difference. The exact order of its sums is defined in `core-rs/src/signs.rs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zoo.core import _core
from zoo.core.arrays import Array, DType, borrow, check_shape, lend, told
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pack_signs(
    base: Array,
    tuned: Array,
    *,
    scale: Literal["row", "matrix"] = "row",
    base_dtype: DType | None = None,
    tuned_dtype: DType | None = None,
    name: str | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Packs the signs of `tuned - base` and their scales, in one pass.

    Args:
        base: [rows, cols], contiguous, at least one value.
        tuned: the same shape; its type may be another.
        scale: one scale for each row, or one for the matrix.
        base_dtype: type of `base`, by default the array's own; NumPy's uint16 must be named.
        tuned_dtype: type of `tuned`.
        name: the tensor's name, which errors then begin with.

    Returns:
        Bits [rows, ceil(cols / 8)], and scales [rows] or [1].

    Raises:
        InputError: shapes that disagree, no value at all, or a NaN or infinity in either matrix or
            in the difference (told with row and column, counted from 0).
        TypeError: an array of another type than its dtype says.
        ValueError: memory that cannot be lent, or an unknown option.
    """
    import numpy as np

    if scale not in {"row", "matrix"}:
        raise ValueError(f"unknown scale: expected 'row' or 'matrix', got {scale!r}")
    with told(name, base):
        lent_base = lend("base", base, base_dtype)
        lent_tuned = lend("tuned", tuned, tuned_dtype)
        check_shape("tuned", lent_tuned[0], lent_base[0].shape)
        rows, cols = lent_base[0].shape
        bits = np.empty((rows, -(-cols // 8)), np.uint8)
        scales = np.empty(rows if scale == "row" else 1, np.float32)
        _core.pack_signs(lent_base, lent_tuned, cols, bits, scales)
    return bits, scales


def unpack_signs(bits: Array, cols: int) -> NDArray[np.float32]:
    """Returns [rows, cols] of +1 for each bit that is 1 and -1 for each that is 0.

    Args:
        bits: [rows, ceil(cols / 8)]; what fills up the last byte of a row is not looked at.
        cols: signs in a row.

    Raises:
        InputError: bits of another width than `cols` asks for.
        TypeError: not uint8.
        ValueError: memory that cannot be lent.
    """
    import numpy as np

    bits = borrow("bits", bits, "uint8")
    check_shape("bits", bits, (bits.shape[0], -(-cols // 8)))
    signs = np.empty((bits.shape[0], cols), np.float32)
    _core.unpack_signs(bits, cols, signs)
    return signs


def apply_signs(
    weights: Array,
    bits: Array,
    scales: Array,
    *,
    dtype: DType | None = None,
    name: str | None = None,
) -> None:
    """Adds each sign times its scale to the weights, in place.

    The sum is taken in float32 and rounded to the weights' type, to nearest, ties to even.

    Args:
        weights: [rows, cols], contiguous, writable; changed.
        bits: [rows, ceil(cols / 8)].
        scales: [rows] or [1].
        dtype: type of `weights`, by default the array's own; NumPy's uint16 must be named.
        name: the tensor's name, which errors then begin with.

    Raises:
        InputError: shapes that disagree, or a scale that is NaN or infinite. The weights are then
            untouched.
        TypeError: an array of another type than expected.
        ValueError: memory that cannot be lent, that overlaps or that is read-only.
    """
    with told(name, weights):
        lent = lend("weights", weights, dtype, writable=True)
        rows, cols = lent[0].shape
        bits = borrow("bits", bits, "uint8")
        check_shape("bits", bits, (rows, -(-cols // 8)))
        scales = borrow("scales", scales, "float32", ndim=1)
        if scales.shape not in {(rows,), (1,)}:
            raise InputError(
                f"scales has the wrong shape: expected {(rows,)} or (1,), got {scales.shape}"
            )
        if lent[0].size > 0:
            _core.apply_signs(lent, cols, bits, scales)
