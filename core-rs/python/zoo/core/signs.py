"""Signs of differences as one bit each, with shared scales.

`tuned - base` in float32; a bit is 1 where the difference is above zero (zeros of either sign give
0), least significant first along a row, each row padded to whole bytes with zeros. With
`zeros="mask"` a second plane of the same form marks nonzero differences. A scale is the mean
absolute difference, with a mask only of the nonzero ones. The exact order of its sums is defined in
`core-rs/src/signs.rs`; every instruction set and number of threads gives the same bytes.

More planes are made by packing the residual of the earlier ones: `pack_signs(zeros, residual)`,
where `zeros` is a float32 matrix of zeros and `residual` the difference minus each earlier plane
(`apply_signs(residual, bits, -scales)`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from zoo.core import _core
from zoo.core.arrays import Array, DType, borrow, check_array, check_shape, lend, located
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.isa import Isa

    Signs: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.float32]]
    MaskedSigns: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint8]]

Scale: TypeAlias = Literal["row", "matrix", "column", "group"]
"""Which values share a scale; a group is a fixed number of values along a row."""

ZeroPolicy: TypeAlias = Literal["minus", "mask"]
"""How a difference of zero is coded: as a minus, or as a zero in a second plane."""

GROUP = 128


@overload
def pack_signs(
    base: Array,
    tuned: Array,
    *,
    scale: Scale = "row",
    group: int = GROUP,
    zeros: Literal["minus"] = "minus",
    base_dtype: DType | None = None,
    tuned_dtype: DType | None = None,
    out: tuple[Any, ...] | None = None,
    name: str | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> Signs: ...
@overload
def pack_signs(
    base: Array,
    tuned: Array,
    *,
    scale: Scale = "row",
    group: int = GROUP,
    zeros: Literal["mask"],
    base_dtype: DType | None = None,
    tuned_dtype: DType | None = None,
    out: tuple[Any, ...] | None = None,
    name: str | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> MaskedSigns: ...
def pack_signs(
    base: Array,
    tuned: Array,
    *,
    scale: Scale = "row",
    group: int = GROUP,
    zeros: ZeroPolicy = "minus",
    base_dtype: DType | None = None,
    tuned_dtype: DType | None = None,
    out: tuple[Any, ...] | None = None,
    name: str | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> Signs | MaskedSigns:
    """Packs the signs of `tuned - base` and their scales, in one pass.

    Args:
        base: [rows, cols], contiguous, at least one value: NumPy, torch on the CPU or MLX.
        tuned: the same shape; its type and library may differ.
        scale: one per row, per matrix, per column, or per group along a row.
        group: values in a group, a multiple of 8; a row's last group may be shorter.
        zeros: how a difference of zero is coded.
        base_dtype: type of `base`, by default the array's own; required for uint16 from NumPy.
        tuned_dtype: type of `tuned`.
        out: arrays from an earlier call with the same shapes, to be reused.
        name: the tensor's name, which then precedes error messages.
        isa: the instruction set, by default the fastest.
        threads: the number of threads, by default all.

    Returns:
        Bits [rows, ceil(cols / 8)] and scales [rows], [1], [cols] or [rows, ceil(cols / group)];
        with `zeros="mask"` also the mask, in the shape of the bits.

    Raises:
        InputError: mismatching shapes, no values, or a NaN or infinity in either matrix or in the
            difference (reported with row and column, counted from 0).
        TypeError: an array that does not match its dtype.
        ValueError: memory that cannot be borrowed, or an unknown option.
    """
    _check_choice("scale", scale, ("row", "matrix", "column", "group"))
    _check_choice("zeros", zeros, ("minus", "mask"))
    with located(name, base):
        lent_base = lend("base", base, base_dtype)
        lent_tuned = lend("tuned", tuned, tuned_dtype)
        check_shape("tuned", lent_tuned[0], lent_base[0].shape)
        _check_group(scale, group)
        rows, cols = lent_base[0].shape
        room = _room(out, rows, cols, (scale, group), masked=zeros == "mask")
        mask = room[2] if len(room) == 3 else None
        options = (isa, threads)
        _core.pack_signs(
            lent_base, lent_tuned, cols, (scale, group), room[0], room[1], mask, *options
        )
    return room


def unpack_signs(
    bits: Array,
    cols: int,
    *,
    mask: Array | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Returns [rows, cols] of +1 for each bit that is 1, -1 for each that is 0, 0 without mask.

    Args:
        bits: [rows, ceil(cols / 8)]; padding bits in the last byte of a row are ignored.
        cols: signs in a row.
        mask: the same shape; 0 where the sign is a zero.
        isa: the instruction set, by default the fastest.
        threads: the number of threads, by default all.

    Raises:
        InputError: the width of the bits does not match `cols`.
        TypeError: not uint8.
        ValueError: memory that cannot be borrowed.
    """
    import numpy as np

    bits = borrow("bits", bits, "uint8")
    rows = bits.shape[0]
    check_shape("bits", bits, (rows, -(-cols // 8)))
    mask = _borrow_mask(mask, bits.shape)
    signs = np.empty((rows, cols), np.float32)
    _core.unpack_signs(bits, mask, cols, signs, isa, threads)
    return signs


def apply_signs(
    weights: Array,
    bits: Array,
    scales: Array,
    *,
    scale: Scale | None = None,
    group: int = GROUP,
    mask: Array | None = None,
    dtype: DType | None = None,
    name: str | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> None:
    """Adds each sign times its scale to the weights, in place.

    The sum is computed in float32 and rounded to the weights' type, to nearest, ties to even. Where
    a mask is 0 the weight's bytes are unchanged. Autograd of a torch tensor does not see the
    change: work on a private copy. MLX arrays are immutable, so they are refused as weights.

    Args:
        weights: [rows, cols], contiguous, writable; changed.
        bits: [rows, ceil(cols / 8)].
        scales: [rows], [1], [cols] or [rows, ceil(cols / group)].
        scale: which values share one; by default inferred from the shape of `scales`, except
            `column`.
        group: values in a group along a row.
        mask: in the shape of the bits; 0 where nothing is added.
        dtype: type of `weights`, by default the array's own; required for uint16 from NumPy.
        name: the tensor's name, which then precedes error messages.
        isa: the instruction set, by default the fastest.
        threads: the number of threads, by default all.

    Raises:
        InputError: mismatching shapes, or a scale that is NaN or infinite. The weights are then
            unchanged.
        TypeError: an array of the wrong type.
        ValueError: memory that cannot be borrowed, that overlaps or that is read-only.
    """
    with located(name, weights):
        lent = lend("weights", weights, dtype, writable=True)
        rows, cols = lent[0].shape
        bits = borrow("bits", bits, "uint8")
        check_shape("bits", bits, (rows, -(-cols // 8)))
        mask = _borrow_mask(mask, bits.shape)
        scales, found = _borrow_scales(scales, scale, group, (rows, cols))
        if lent[0].size > 0:
            options = (isa, threads)
            _core.apply_signs(lent, cols, (found, group), bits, scales, mask, *options)


def scales_shape(scale: Scale, rows: int, cols: int, group: int = GROUP) -> tuple[int, ...]:
    """Returns the shape of a matrix's scales."""
    if scale == "group":
        return rows, -(-cols // group)
    return ({"row": rows, "matrix": 1, "column": cols}[scale],)


def _check_choice(what: str, got: str, known: tuple[str, ...]) -> None:
    if got not in known:
        *first, last = (repr(choice) for choice in known)
        expected = f"{', '.join(first)} or {last}"
        raise ValueError(f"unknown {what}: expected {expected}, got {got!r}")


def _check_group(scale: Scale, group: int) -> None:
    if scale == "group" and (group < 8 or group % 8):
        raise ValueError(f"wrong group: expected a multiple of 8, at least 8, got {group}")


def _room(
    out: tuple[Any, ...] | None, rows: int, cols: int, axis: tuple[Scale, int], *, masked: bool
) -> Signs | MaskedSigns:
    """Returns the arrays to write: new ones, or the caller's after a check."""
    import numpy as np

    planes = (rows, -(-cols // 8))
    shapes = {"bits": planes, "scales": scales_shape(axis[0], rows, cols, axis[1]), "mask": planes}
    if not masked:
        del shapes["mask"]
    types = {"bits": "uint8", "scales": "float32", "mask": "uint8"}
    if out is None:
        fresh = tuple(np.empty(shape, types[what]) for what, shape in shapes.items())
        return cast("Signs | MaskedSigns", fresh)
    if len(out) != len(shapes):
        raise ValueError(f"out does not fit: expected {len(shapes)} arrays, got {len(out)}")
    for array, (what, shape) in zip(out, shapes.items(), strict=True):
        check_array(what, array, types[what], ndim=len(shape), writable=True)
        check_shape(what, array, shape)
    return cast("Signs | MaskedSigns", out)


def _borrow_mask(mask: Array | None, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    if mask is None:
        return None
    memory = borrow("mask", mask, "uint8")
    check_shape("mask", memory, shape)
    return memory


def _borrow_scales(
    scales: Array, scale: Scale | None, group: int, shape: tuple[int, int]
) -> tuple[NDArray[np.float32], Scale]:
    """Returns the scales' memory and which values share one, by default from the shape."""
    ndim = len(getattr(scales, "shape", ()))
    if scale is None:
        scale = "group" if ndim == 2 else "matrix" if tuple(scales.shape) == (1,) else "row"
        expected = f"{(shape[0],)} or (1,)"
    else:
        _check_choice("scale", scale, ("row", "matrix", "column", "group"))
        expected = f"{scales_shape(scale, *shape, group)}"
    _check_group(scale, group)
    wanted = scales_shape(scale, *shape, group)
    memory = borrow("scales", scales, "float32", ndim=len(wanted))
    if memory.shape != wanted:
        expected = expected if scale != "group" else str(wanted)
        raise InputError(
            f"scales has the wrong shape: expected {expected}, got {memory.shape}",
            code="core.wrong_shape",
        )
    return memory, scale
