"""A matrix times tokens: sign bits with their scales, or bf16 weights to measure them against.

The order of every sum is defined in `core-rs/src/product.rs`: each instruction set and each number
of threads gives the same bytes. Left out: scales of groups or columns and mask planes. They are
refused by their shape; unpack such a delta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zoo.core import _core
from zoo.core.arrays import Array, borrow, check_shape
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.isa import Isa


def sign_product(
    x: Array,
    bits: Array,
    scales: Array,
    *,
    method: Literal["exact", "int8"] = "exact",
    out: NDArray[np.float32] | None = None,
    add: bool = False,
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Multiplies tokens by signs: `y[t, o] = scales[o] * sum(sign[o, i] * x[t, i] for each i)`.

    Made for few tokens, 1 to 64: from about 32 on, unpacked weights and a dense product may win.

    Args:
        x: float32 [tokens, cols].
        bits: uint8 [rows, ceil(cols / 8)], as `pack_signs` returns them; what fills up the last
            byte of a row is not looked at.
        scales: float32 [rows] or [1].
        method: `exact` adds in float32; `int8` rounds each 1,024 inputs of a token to whole numbers
            of 8 bits first, which is faster and about 1 % off.
        out: float32 [tokens, rows], written and returned; a new array where it is left out.
        add: whether the product is added to `out` (rounded once) instead of written over it.
        isa: the instruction set; the fastest by default.
        threads: how many; 1 is the calling thread alone, by default as many as the machine has.

    Returns:
        [tokens, rows].

    Raises:
        InputError: shapes that disagree, a NaN or infinity in x or scales (told with row and
            column, a token being a row), or a token too large to be added up in float32. `out` is
            then untouched.
        TypeError: an array of another type than expected.
        ValueError: memory that cannot be lent, that overlaps or is read-only; `add` without `out`;
            an unknown method, or an instruction set that this machine lacks.
    """
    import numpy as np

    if method not in {"exact", "int8"}:
        raise ValueError(f"unknown method: expected 'exact' or 'int8', got {method!r}")
    if add and out is None:
        raise ValueError("nothing to add to: expected out with add=True, got none")
    lent_x, lent_bits = borrow("x", x, "float32"), borrow("bits", bits, "uint8")
    lent_scales = borrow("scales", scales, "float32", ndim=1)
    (tokens, cols), rows = lent_x.shape, lent_bits.shape[0]
    check_shape("bits", lent_bits, (rows, -(-cols // 8)))
    if lent_scales.shape not in {(rows,), (1,)}:
        raise InputError(
            f"scales has the wrong shape: expected {(rows,)} or (1,), got {lent_scales.shape}",
            hint="group scales and mask planes have no product of their own: unpack them",
        )
    y = np.empty((tokens, rows), np.float32) if out is None else out
    lent_y = borrow("out", y, "float32", writable=True)
    check_shape("out", lent_y, (tokens, rows))
    _core.sign_product(
        lent_x,
        lent_bits,
        lent_scales,
        cols,
        lent_y,
        exact=method == "exact",
        add=add,
        isa=isa,
        threads=threads,
    )
    return y


def dense_product(
    x: Array,
    weights: Array,
    *,
    out: NDArray[np.float32] | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Multiplies one token by bf16 weights, in float32; NaN and infinity go through.

    Args:
        x: float32 [cols].
        weights: bf16 [rows, cols]; from NumPy as uint16.
        out: float32 [rows], written and returned; a new array where it is left out.
        isa: the instruction set; the fastest by default.
        threads: how many; 1 is the calling thread alone, by default as many as the machine has.

    Returns:
        [rows].

    Raises:
        InputError: shapes that disagree.
        TypeError: an array of another type than expected.
        ValueError: memory that cannot be lent, that overlaps or is read-only, or an instruction set
            that this machine lacks.
    """
    import numpy as np

    lent_x, lent_weights = borrow("x", x, "float32", ndim=1), borrow("weights", weights, "uint16")
    rows = lent_weights.shape[0]
    check_shape("weights", lent_weights, (rows, *lent_x.shape))
    y = np.empty(rows, np.float32) if out is None else out
    lent_y = borrow("out", y, "float32", ndim=1, writable=True)
    check_shape("out", lent_y, (rows,))
    _core.dense_product(lent_x, lent_weights, lent_y, isa=isa, threads=threads)
    return y
