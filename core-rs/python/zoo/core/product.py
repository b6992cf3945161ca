"""Multiplies a matrix by tokens: sign bits with scales, or bf16 weights.

The order of every sum is defined in `core-rs/src/product.rs`: each instruction set and each number
of threads gives the same bytes. Not supported: scales per group or column, and masks. They are
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

    Intended for 1 to 64 tokens: from about 32 on, a dense product with unpacked weights may be
    faster.

    Args:
        x: float32 [tokens, cols].
        bits: uint8 [rows, ceil(cols / 8)], as `pack_signs` returns them; padding bits in the
            last byte of a row are ignored.
        scales: float32 [rows] or [1].
        method: `exact` adds in float32; `int8` first rounds each 1,024 inputs of a token to 8-bit
            integers, which is faster, with an error of about 1 %.
        out: float32 [tokens, rows], written and returned; by default a new array.
        add: whether to add the product to `out` (rounded once) instead of overwriting it.
        isa: the instruction set; the fastest by default.
        threads: the number of threads, by default all; 1 uses only the calling thread.

    Returns:
        [tokens, rows].

    Raises:
        InputError: mismatching shapes, a NaN or infinity in x or scales (reported with row and
            column; a token is a row), or a token too large to sum in float32. `out` is then
            unchanged.
        TypeError: an array of the wrong type.
        ValueError: memory that cannot be borrowed, that overlaps or is read-only; `add` without
            `out`; an unknown method, or an instruction set that this machine lacks.
    """
    import numpy as np

    if method not in {"exact", "int8"}:
        raise ValueError(f"unknown method: expected 'exact' or 'int8', got {method!r}")
    if add and out is None:
        raise ValueError("nothing to add to: expected out with add=True, got none")
    x_view, bits_view = borrow("x", x, "float32"), borrow("bits", bits, "uint8")
    scales_view = borrow("scales", scales, "float32", ndim=1)
    (tokens, cols), rows = x_view.shape, bits_view.shape[0]
    check_shape("bits", bits_view, (rows, -(-cols // 8)))
    if scales_view.shape not in {(rows,), (1,)}:
        raise InputError(
            f"scales has the wrong shape: expected {(rows,)} or (1,), got {scales_view.shape}",
            hint="products with group scales or masks are not supported: unpack them",
            code="core.wrong_shape",
        )
    y = np.empty((tokens, rows), np.float32) if out is None else out
    y_view = borrow("out", y, "float32", writable=True)
    check_shape("out", y_view, (tokens, rows))
    _core.sign_product(
        x_view,
        bits_view,
        scales_view,
        cols,
        y_view,
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
    """Multiplies tokens by bf16 weights, in float32; NaN and infinity propagate.

    Intended for 1 to 6 tokens: with more, a product of widened weights is faster.

    Args:
        x: float32 [tokens, cols].
        weights: bf16 [rows, cols]; from NumPy as uint16.
        out: float32 [tokens, rows], written and returned; by default a new array.
        isa: the instruction set; the fastest by default.
        threads: the number of threads, by default all; 1 uses only the calling thread.

    Returns:
        [tokens, rows].

    Raises:
        InputError: mismatching shapes.
        TypeError: an array of the wrong type.
        ValueError: memory that cannot be borrowed, that overlaps or is read-only, or an instruction
            set that this machine lacks.
    """
    import numpy as np

    x_view, lent_weights = borrow("x", x, "float32"), borrow("weights", weights, "uint16")
    (tokens, cols), rows = x_view.shape, lent_weights.shape[0]
    check_shape("weights", lent_weights, (rows, cols))
    y = np.empty((tokens, rows), np.float32) if out is None else out
    y_view = borrow("out", y, "float32", writable=True)
    check_shape("out", y_view, (tokens, rows))
    _core.dense_product(x_view, lent_weights, y_view, tokens, isa=isa, threads=threads)
    return y
