"""Encodes and decodes the two factors of a low-rank term, and adds their product.

Legend: A is [rank, in], B is [rank, out]; F is either of them.
"""

from typing import TYPE_CHECKING, Any, cast

from zoo.gym.delta.codecs.floats import refuse_not_finite, to_bf16, widened
from zoo.gym.delta.codecs.options import LowRank
from zoo.gym.delta.codecs.values import Parts
from zoo.gym.delta.file.terms import FACTOR_FLOATS, GROUP, FactorCodec, LowRankTerm
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core import GroupCodec


def code_factors(
    name: str, A: "NDArray[np.float32]", B: "NDArray[np.float32]", coding: LowRank
) -> "tuple[LowRankTerm, dict[str, NDArray[Any]]]":
    """Encodes both factors of a tensor, cut to the coding's rank if they have a higher one.

    Raises:
        InputError: the values of a group overflow float16; the message has the tensor.
    """
    cut_A, cut_B = cut_factors(A, B, coding.rank)
    term = LowRankTerm(rank=len(cut_A), A=coding.codec, B=coding.codec)
    coded = code_factor(name, "A", cut_A, term.A)
    return term, {**coded, **code_factor(name, "B", cut_B, term.B)}


def cut_factors(
    A: "NDArray[np.float32]", B: "NDArray[np.float32]", rank: int | None
) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Returns the factors of the nearest product of a lower rank; the same ones without a rank.

    Nearest by the sum of squares (Eckart and Young, 1936). Each factor has the root of a singular
    value, so that both have the same size.
    """
    import numpy as np

    if rank is None or rank >= len(A):
        return A, B
    (columns, R_A), (rows, R_B) = (np.linalg.qr(F.T.astype("f8")) for F in (A, B))
    U, sizes, V = np.linalg.svd(R_B @ R_A.T)
    roots = np.sqrt(sizes[:rank])
    cut_A = (columns @ V[:rank].T * roots).T
    cut_B = (rows @ U[:, :rank] * roots).T
    return np.ascontiguousarray(cut_A, "f4"), np.ascontiguousarray(cut_B, "f4")


def code_factor(
    name: str, side: str, F: "NDArray[np.float32]", codec: FactorCodec
) -> "dict[str, NDArray[Any]]":
    """Returns the parts of one factor.

    Raises:
        InputError: the values of a group overflow float16; the message has the tensor.
    """
    from zoo.core import pack_codes2, pack_groups

    coded: dict[str, NDArray[Any]]
    try:
        if codec in FACTOR_FLOATS:
            coded = {"values": _narrow(F, codec)}
        elif codec == "codes2":
            coded = dict(zip(("codes", "scale", "zero"), pack_codes2(F, group=GROUP), strict=True))
        else:
            group_codec = cast("GroupCodec", codec)
            name_of = ("sign" if codec == "sign" else "codes", "scale")
            coded = dict(zip(name_of, pack_groups(group_codec, F), strict=True))
    except InputError as error:
        raise InputError(
            f"tensor {name!r}: factors: {error.message}", code=error.code or "delta.too_large"
        ) from error
    return {f"{side}.{part}": array for part, array in coded.items()}


def _narrow(F: "NDArray[np.float32]", codec: FactorCodec) -> "NDArray[Any]":
    import numpy as np

    if codec == "f32":
        return F
    with np.errstate(over="ignore"):
        narrow: NDArray[Any] = F.astype(np.float16) if codec == "f16" else to_bf16(F)
    refuse_not_finite(widened(narrow), f"rounded to {codec}")
    return narrow


def decode_factors(
    term: LowRankTerm, parts: Parts, shape: tuple[int, ...]
) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Returns the factors A [r, in] and B [r, out] of a tensor of this shape."""
    rows, columns = shape
    return _decode(parts, "A", term.A, columns), _decode(parts, "B", term.B, rows)


def _decode(parts: Parts, side: str, codec: FactorCodec, length: int) -> "NDArray[np.float32]":
    from zoo.core import unpack_codes2, unpack_groups

    if codec in FACTOR_FLOATS:
        return widened(parts[f"{side}.values"])
    scales = parts[f"{side}.scale"]
    if codec == "codes2":
        codes, zeros = parts[f"{side}.codes"], parts[f"{side}.zero"]
        return unpack_codes2(codes, scales, zeros, cols=length, group=GROUP)
    codes = parts[f"{side}.sign" if codec == "sign" else f"{side}.codes"]
    return unpack_groups(cast("GroupCodec", codec), codes, scales, cols=length)


def add_product(
    term: LowRankTerm,
    parts: Parts,
    shape: tuple[int, ...],
    total: "NDArray[np.float32]",
    rows: slice,
) -> None:
    """Adds some rows of B^T A, summed over the rank in float64, in order, and rounded once."""
    from zoo.core import add_product as add_matrix

    A, B = decode_factors(term, parts, shape)
    columns = B if rows == slice(0, shape[0]) else B[:, rows].copy()
    add_matrix(A, columns, total)
