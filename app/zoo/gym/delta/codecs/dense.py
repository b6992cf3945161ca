"""Encodes the difference of a matrix in few bits: planes of signs, ternary digits or integers.

One plane of signs with one scale is BitDelta (arXiv:2402.10193); zoo.core packs the bits.
"""

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.values import Parts, Values
from zoo.gym.delta.file.terms import GROUP, IntTerm, Scale, SignTerm, TernaryTerm, plane_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core import GroupCodec

Coded: TypeAlias = "tuple[SignTerm | TernaryTerm | IntTerm, Parts]"

MANY_ZEROS = 0.25
"""Share of zero differences above which `auto` masks them: one more bit per weight, but these
weights stay exact."""

_SAMPLED_ROWS = 64


def code_matrix(base: Values, tuned: Values, coding: Dense) -> "Coded | None":
    """Encodes the difference of a matrix; None if it is zero.

    Raises:
        InputError: a value is not finite, or too large for a scale.
    """
    if coding.codec == "sign":
        return _code_signs(base, tuned, coding)
    from zoo.core import pack_groups

    kind = "ternary" if coding.codec == "ternary" else "int"
    codec = cast("GroupCodec", kind if kind == "ternary" else f"int{coding.bits}")
    codes, scales = pack_groups(
        codec, tuned.values, base=base.values, dtype=tuned.dtype, base_dtype=base.dtype
    )
    if not scales.any():
        return None
    return dense_term(coding), {f"{kind}.codes": codes, f"{kind}.scale": scales}


def dense_term(coding: Dense, *, masked: bool = False) -> SignTerm | TernaryTerm | IntTerm:
    """Returns the term of a matrix with this coding.

    Raises:
        ValueError: a sparse coding, whose term depends on what changed.
    """
    if coding.codec == "sparse":
        raise ValueError("coding: expected sign, ternary or int, got 'sparse'")
    if coding.codec == "ternary":
        return TernaryTerm()
    if coding.codec == "int":
        return IntTerm(bits=coding.bits)
    return SignTerm(
        scale=coding.scale,
        zero="mask" if masked or coding.zero == "mask" else "minus",
        planes=coding.planes,
        group=GROUP if coding.scale == "group" else None,
    )


def zero_share(base: Values, tuned: Values) -> float:
    """Returns the share of differences that are zero, in at most 64 evenly spaced rows."""
    import numpy as np

    rows, columns = base.values.shape
    zeros = 0
    picked = np.unique(np.linspace(0, rows - 1, _SAMPLED_ROWS).astype(int))
    for row in picked:
        part = slice(row * columns, (row + 1) * columns)
        zeros += int(np.count_nonzero(base.float32(part) == tuned.float32(part)))
    return float(zeros / (len(picked) * columns))


def _code_signs(base: Values, tuned: Values, coding: Dense) -> "Coded | None":
    import numpy as np

    many = coding.zero == "auto" and MANY_ZEROS < zero_share(base, tuned) < 1
    masked = coding.zero == "mask" or many
    bits, scales, mask = _pack_plane(base, tuned, coding.scale, mask=masked)
    if not scales.any():
        return None
    term = dense_term(coding, masked=masked)
    assert isinstance(term, SignTerm)
    arrays: dict[str, NDArray[Any]] = {"sign": bits, "scale": scales}
    rest = _change(base, tuned) if coding.planes > 1 else None
    for previous, plane in zip(plane_names(term), plane_names(term)[1:], strict=False):
        assert rest is not None
        _add_plane(rest, arrays[f"sign{previous}"], -arrays[f"scale{previous}"], coding.scale, mask)
        nothing = Values(np.zeros_like(rest), "f32", "base")
        left = Values(rest, "f32", "the remainder")
        more, sizes, _ = _pack_plane(nothing, left, coding.scale, mask=masked)
        arrays |= {f"sign{plane}": more, f"scale{plane}": sizes}
    return term, arrays if mask is None else {**arrays, "mask": mask}


def _pack_plane(
    base: Values, tuned: Values, scale: Scale, *, mask: bool
) -> "tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint8] | None]":
    """Returns bits, scales and, if requested, the mask of a matrix's difference.

    Raises:
        InputError: a value is not finite, or the mean difference overflows float32.
    """
    from zoo.core import pack_signs

    packed = pack_signs(
        base.values,
        tuned.values,
        scale=scale,
        group=GROUP,
        zeros="mask" if mask else "minus",
        base_dtype=base.dtype,
        tuned_dtype=tuned.dtype,
    )
    return packed[0], packed[1], packed[2] if len(packed) == 3 else None


def _change(base: Values, tuned: Values) -> "NDArray[np.float32]":
    everything = slice(0, base.values.size)
    return (tuned.float32(everything) - base.float32(everything)).reshape(base.values.shape)


def add_signs(term: SignTerm, parts: Parts, total: "NDArray[np.float32]", rows: slice) -> None:
    """Adds the planes of a sign term to some rows, in order."""
    mask = parts["mask"][rows] if term.zero == "mask" else None
    for plane in plane_names(term):
        scales = parts[f"scale{plane}"]
        row_scales = scales[rows] if term.scale in {"row", "group"} else scales
        _add_plane(total, parts[f"sign{plane}"][rows], row_scales, term.scale, mask)


def _add_plane(
    total: "NDArray[np.float32]",
    bits: "NDArray[np.uint8]",
    scales: "NDArray[np.float32]",
    scale: Scale,
    mask: "NDArray[np.uint8] | None",
) -> None:
    """Adds plus or minus the scales to some rows, in place; nothing where the mask is 0."""
    from zoo.core import apply_signs

    apply_signs(total, bits, scales, scale=scale, group=GROUP, mask=mask)


def add_ternary(parts: Parts, total: "NDArray[np.float32]", rows: slice) -> None:
    """Adds a ternary term to some rows.

    Raises:
        InputError: a byte does not encode five digits.
    """
    from zoo.core import apply_groups

    apply_groups("ternary", total, parts["ternary.codes"][rows], parts["ternary.scale"][rows])


def add_ints(term: IntTerm, parts: Parts, total: "NDArray[np.float32]", rows: slice) -> None:
    """Adds an int term to some rows."""
    from zoo.core import apply_groups

    codec = cast("GroupCodec", f"int{term.bits}")
    apply_groups(codec, total, parts["int.codes"][rows], parts["int.scale"][rows])
