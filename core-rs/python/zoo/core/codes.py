"""Low-bit codes in groups of 128 along a row, each group with a float16 scale.

`*_codes2` also have a zero point: a value decodes to `(code - zero / 64) * scale`, with an error of
at most half a step (scale / 2); `core-rs/src/codes.rs` defines them to the last bit. The codecs of
`*_groups` are symmetric around zero; `core-rs/src/codes/groups.rs` defines those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.core import _core
from zoo.core.arrays import DType, check_array, check_shape, lend

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.isa import Isa

GroupCodec: TypeAlias = Literal["sign", "ternary", "int2", "int4", "int8"]
"""One bit; ternary digits, five per byte; two, four or eight bits."""

_GROUP = 128
_PER_BYTE: dict[str, int] = {"sign": 8, "ternary": 5, "int2": 4, "int4": 2, "int8": 1}


def pack_codes2(
    values: NDArray[np.float32], *, group: int = 128
) -> tuple[NDArray[np.uint8], NDArray[np.float16], NDArray[np.uint8]]:
    """Packs a matrix into two-bit codes.

    Args:
        values: [rows, cols], contiguous, at least one value.
        group: values that share a scale along a row; a row's last group is shorter.

    Returns:
        Codes [rows, ceil(cols / 4)], four per byte, lowest bits first, each row padded with zeros;
        scales and zeros, both [rows, ceil(cols / group)].

    Raises:
        InputError: no value at all, a NaN or infinity (reported with row and column, counted from
            0), or a group with a range too large for a float16 scale.
        TypeError: not float32.
        ValueError: memory that cannot be borrowed, or a group below 1.
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
    """Decodes a matrix from two-bit codes.

    Args:
        codes: [rows, ceil(cols / 4)].
        scales: [rows, ceil(cols / group)], finite.
        zeros: the same shape, in 64ths of a step.
        cols: values in a row.
        group: values that share a scale along a row.

    Returns:
        [rows, cols] in float32; each value is exact.

    Raises:
        InputError: mismatching shapes, or a scale that is NaN or infinite (its row, and its group
            as the column).
        TypeError: an array of the wrong type.
        ValueError: memory that cannot be borrowed, or a group below 1.
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


def pack_groups(
    codec: GroupCodec,
    values: NDArray[Any],
    *,
    base: NDArray[Any] | None = None,
    dtype: DType = "f32",
    base_dtype: DType = "f32",
    isa: Isa | None = None,
    threads: int | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Packs a matrix, or its difference to a base, into codes in groups of 128.

    Args:
        codec: the codec of the values.
        values: [rows, cols], contiguous, at least one value.
        base: the same shape; if given, `values - base` is packed, computed in float32.
        dtype: type of `values`; bf16 is passed as uint16.
        base_dtype: type of `base`.
        isa: the instruction set, by default the fastest; all give the same bytes.
        threads: the number of threads, by default all.

    Returns:
        Codes [rows, bytes], the first value of a byte lowest, each row padded with zeros; scales
        [rows, ceil(cols / 128)].

    Raises:
        InputError: no value at all, a NaN or infinity (reported with row and column, counted from
            0), or a group whose values are too large for a float16 scale.
        TypeError: an array that does not match its dtype.
        ValueError: memory that cannot be borrowed, or an unknown codec.
    """
    import numpy as np

    per_byte = _per_byte(codec)
    lent = lend("values", values, dtype)
    lent_base = None
    if base is not None:
        lent_base = lend("base", base, base_dtype)
        check_shape("base", base, values.shape)
    rows, cols = values.shape
    codes = np.empty((rows, -(-cols // per_byte)), np.uint8)
    scales = np.empty((rows, -(-cols // _GROUP)), np.float16)
    bits = scales.view(np.uint16)
    _core.pack_groups(codec, lent_base, lent, cols, codes, bits, isa, threads)
    return codes, scales


def apply_groups(
    codec: GroupCodec,
    weights: NDArray[Any],
    codes: NDArray[np.uint8],
    scales: NDArray[np.float16],
    *,
    dtype: DType = "f32",
    isa: Isa | None = None,
    threads: int | None = None,
) -> None:
    """Adds decoded codes to the weights, in place.

    The sum is computed in float32 and rounded to the weights' type, to nearest, ties to even.

    Args:
        codec: the codec that the codes were packed with.
        weights: [rows, cols], contiguous, writable; changed.
        codes: [rows, bytes].
        scales: [rows, ceil(cols / 128)].
        dtype: type of `weights`; bf16 is passed as uint16.
        isa: the instruction set, by default the fastest.
        threads: the number of threads, by default all.

    Raises:
        InputError: mismatching shapes, a scale that is NaN or infinite (its group as the column),
            or a byte that is not five ternary digits. The weights are then unchanged.
        TypeError: an array of the wrong type.
        ValueError: memory that cannot be borrowed, that overlaps or that is read-only.
    """
    import numpy as np

    per_byte = _per_byte(codec)
    lent = lend("weights", weights, dtype, writable=True)
    rows, cols = weights.shape
    check_array("codes", codes, "uint8")
    check_array("scales", scales, "float16")
    check_shape("codes", codes, (rows, -(-cols // per_byte)))
    check_shape("scales", scales, (rows, -(-cols // _GROUP)))
    if weights.size > 0:
        _core.apply_groups(codec, lent, cols, codes, scales.view(np.uint16), isa, threads)


def unpack_groups(
    codec: GroupCodec, codes: NDArray[np.uint8], scales: NDArray[np.float16], *, cols: int
) -> NDArray[np.float32]:
    """Returns decoded codes, [rows, cols] in float32; each value is exact.

    Raises:
        InputError: as `apply_groups`.
    """
    import numpy as np

    values = np.zeros((codes.shape[0], cols), np.float32)
    apply_groups(codec, values, codes, scales)
    return values


def add_product(
    A: NDArray[np.float32],
    B: NDArray[np.float32],
    total: NDArray[np.float32],
    *,
    isa: Isa | None = None,
    threads: int | None = None,
) -> None:
    """Adds B^T A to a matrix, in place: sums over the rank in float64, in order, and rounds once.

    Args:
        A: [rank, cols].
        B: [rank, rows].
        total: [rows, cols]; changed.
        isa: the instruction set, by default the fastest.
        threads: the number of threads, by default all.

    Raises:
        InputError: mismatching shapes.
        TypeError: not float32.
        ValueError: memory that cannot be borrowed, that overlaps or that is read-only.
    """
    check_array("A", A, "float32")
    check_array("B", B, "float32")
    check_array("total", total, "float32", writable=True)
    check_shape("A", A, (A.shape[0], total.shape[1]))
    check_shape("B", B, (A.shape[0], total.shape[0]))
    if total.size > 0:
        _core.add_product(A, B, total.shape[1], total, isa, threads)


def _per_byte(codec: str) -> int:
    if codec not in _PER_BYTE:
        known = ", ".join(repr(name) for name in _PER_BYTE)
        raise ValueError(f"unknown codec: expected one of {known}, got {codec!r}")
    return _PER_BYTE[codec]


def _check_group(group: int) -> None:
    if group < 1:
        raise ValueError(f"group is too small: expected at least 1, got {group}")
