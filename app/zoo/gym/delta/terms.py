"""From a difference to the parts of its term, and back.

Legend: r rank; a matrix is [out, in]. The kernels live in zoo.core; here is what they are given.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.container import Delta, read_part
from zoo.gym.delta.header import (
    GROUP,
    LowRankTerm,
    RawTerm,
    Scale,
    SignTerm,
    TensorTerms,
    rows_and_columns,
)
from zoo.gym.delta.weights import (
    FLOATS,
    Weights,
    read_float32,
    read_stored,
    refuse_not_finite,
)
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROWS_AT_ONCE = 1024  # of the product of two factors, which passes through float64


@dataclass(frozen=True)
class Encoded:
    """The coded change of a tensor: its term, and the arrays of the term's parts in their order."""

    tensor: TensorTerms
    arrays: "list[NDArray[Any]]"


def encode_sign(base: Weights, tuned: Weights, name: str, scale: Scale) -> "Encoded | None":
    """Codes a tensor's difference as signs and scales; None where there is no difference.

    Raises:
        InputError: a value is not finite, or the mean difference overflows float32.
    """
    from zoo.core import pack_signs

    shape = base.shape(name)
    matrix = rows_and_columns(shape)
    try:
        bits, scales = pack_signs(
            read_stored(base, name).reshape(matrix),
            read_stored(tuned, name).reshape(matrix),
            scale=scale,
            base_dtype=FLOATS[base.dtype(name)],
            tuned_dtype=FLOATS[tuned.dtype(name)],
        )
    except InputError as error:
        raise InputError(f"tensor {name!r}: {error.message}") from error
    if not scales.any():
        return None
    term = SignTerm(scale=scale)
    return Encoded(TensorTerms(name=name, shape=shape, terms=(term,)), [bits, scales])


def encode_raw(base: Weights, tuned: Weights, name: str) -> "Encoded | None":
    """Takes a tensor's difference as it is; None where there is none.

    Raises:
        InputError: a value is not finite.
    """
    before, after = read_float32(base, name), read_float32(tuned, name)
    for values, weights in ((before, base), (after, tuned)):
        refuse_not_finite(values, f"{weights.source}: tensor {name!r}")
    change = after - before
    if not change.any():
        return None
    refuse_not_finite(change, f"tensor {name!r}: difference")
    tensor = TensorTerms(name=name, shape=base.shape(name), terms=(RawTerm(),))
    return Encoded(tensor, [change])


def encode_lowrank(
    name: str, A: "NDArray[np.float32]", B: "NDArray[np.float32]"
) -> "Encoded | None":
    """Codes the factors A [r, in] and B [r, out] at 2 bits; None where their product is zero.

    Raises:
        InputError: a group's range overflows float16.
    """
    if not (A.any() and B.any()):
        return None
    term = LowRankTerm(rank=len(A))
    tensor = TensorTerms(name=name, shape=(B.shape[1], A.shape[1]), terms=(term,))
    return Encoded(tensor, code_factors(name, A, B))


def code_factors(
    name: str, A: "NDArray[np.float32]", B: "NDArray[np.float32]"
) -> "list[NDArray[Any]]":
    """Returns codes, scales and zeros of A, then of B.

    Raises:
        InputError: a group's range overflows float16.
    """
    from zoo.core import pack_codes2

    arrays: list[NDArray[Any]] = []
    try:
        for factor in (A, B):
            arrays += pack_codes2(factor, group=GROUP)
    except InputError as error:
        raise InputError(f"tensor {name!r}: factors: {error.message}") from error
    return arrays


def decode_factors(
    delta: Delta, tensor: TensorTerms
) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Returns the factors A [r, in] and B [r, out] of a tensor with a low-rank term."""
    from zoo.core import unpack_codes2

    rows, columns = tensor.shape
    A, B = (
        unpack_codes2(
            *(read_part(delta, f"{tensor.name}.{side}.{part}") for part in _CODED),
            cols=length,
            group=GROUP,
        )
        for side, length in (("A", columns), ("B", rows))
    )
    return A, B


_CODED = ("codes", "scale", "zero")


def difference(delta: Delta, tensor: TensorTerms, *, scaled: float = 1.0) -> "NDArray[np.float32]":
    """Returns what the delta adds to a tensor, float32 in the tensor's shape.

    Args:
        delta: the file.
        tensor: one of `delta.header.tensors`.
        scaled: what the whole difference is multiplied by, in float32.
    """
    import numpy as np

    total = np.zeros(tensor.shape, np.float32)
    for term in tensor.terms:
        if isinstance(term, RawTerm):
            total += read_part(delta, f"{tensor.name}.raw")
        elif isinstance(term, SignTerm):
            _add_signs(delta, tensor, total)
        else:
            _add_product(*decode_factors(delta, tensor), total)
    return total if scaled == 1.0 else total * np.float32(scaled)


def _add_signs(delta: Delta, tensor: TensorTerms, total: "NDArray[np.float32]") -> None:
    from zoo.core import apply_signs

    bits, scales = (read_part(delta, f"{tensor.name}.{part}") for part in ("sign", "scale"))
    apply_signs(total.reshape(rows_and_columns(tensor.shape)), bits, scales)


def _add_product(
    A: "NDArray[np.float32]", B: "NDArray[np.float32]", total: "NDArray[np.float32]"
) -> None:
    """Adds B^T A, summed in float64 and rounded once: the same on every machine."""
    import numpy as np

    A_wide, B_wide = A.astype(np.float64), B.astype(np.float64)
    for row in range(0, len(total), _ROWS_AT_ONCE):
        rows = slice(row, row + _ROWS_AT_ONCE)
        total[rows] += (B_wide[:, rows].T @ A_wide).astype(np.float32)
