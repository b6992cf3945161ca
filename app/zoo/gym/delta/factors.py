"""The two factors of a low-rank term: their codecs, and the product that they stand for.

Legend: A is [rank, in], B is [rank, out]; F is either of them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.gym.delta.coding import LowRank
from zoo.gym.delta.kinds import GROUP, FactorCodec, LowRankTerm
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Parts: TypeAlias = "Mapping[str, NDArray[Any]]"

_ROWS_AT_ONCE = 1024  # of the product, which passes through float64


def code_factors(
    name: str, A: "NDArray[np.float32]", B: "NDArray[np.float32]", coding: LowRank
) -> "tuple[LowRankTerm, dict[str, NDArray[Any]]]":
    """Codes both factors of a tensor.

    Raises:
        InputError: names the tensor where a group's values overflow float16.
    """
    term = LowRankTerm(rank=len(A), A=coding.codec, B=coding.codec)
    return term, {**code_factor(name, "A", A, term.A), **code_factor(name, "B", B, term.B)}


def code_factor(
    name: str, side: str, F: "NDArray[np.float32]", codec: FactorCodec
) -> "dict[str, NDArray[Any]]":
    """Returns the parts of one factor.

    Raises:
        InputError: names the tensor where a group's values overflow float16.
    """
    from zoo.core import pack_codes2

    assert codec == "codes2"
    try:
        codes, scales, zeros = pack_codes2(F, group=GROUP)
    except InputError as error:
        raise InputError(f"tensor {name!r}: factors: {error.message}") from error
    return {f"{side}.codes": codes, f"{side}.scale": scales, f"{side}.zero": zeros}


def decode_factors(
    term: LowRankTerm, parts: Parts, shape: tuple[int, ...]
) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Returns the factors A [r, in] and B [r, out] of a tensor of this shape."""
    rows, columns = shape
    return _decode(parts, "A", term.A, columns), _decode(parts, "B", term.B, rows)


def _decode(parts: Parts, side: str, codec: FactorCodec, length: int) -> "NDArray[np.float32]":
    from zoo.core import unpack_codes2

    assert codec == "codes2"
    coded = (parts[f"{side}.{part}"] for part in ("codes", "scale", "zero"))
    return unpack_codes2(*coded, cols=length, group=GROUP)


def add_product(
    term: LowRankTerm,
    parts: Parts,
    shape: tuple[int, ...],
    total: "NDArray[np.float32]",
    rows: slice,
) -> None:
    """Adds some rows of B^T A, summed over the rank in float64 and rounded once."""
    import numpy as np

    A, B = (factor.astype(np.float64) for factor in decode_factors(term, parts, shape))
    for start in range(rows.start, rows.stop, _ROWS_AT_ONCE):
        stop = min(rows.stop, start + _ROWS_AT_ONCE)
        product = (B[:, start:stop].T @ A).astype(np.float32)
        total[start - rows.start : stop - rows.start] += product
