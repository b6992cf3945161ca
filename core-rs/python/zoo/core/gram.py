"""Gram matrices that anybody recomputes to the bit, and the distance-based rules on them.

A scalar product of two contributions is an integer number of 2^-80: two uint64, the lower one
first, as two's complement, so that a matrix is [n, n, 2]. Tensors and shards add up, in any order.
`whole_gram` rounds a matrix to int64, and what follows is exact, too. Of equal distances and scores
the earlier contributor's comes first: a round puts contributors in the order of their digests.
`core-rs/src/gram` defines the computation exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zoo.core import _core
from zoo.core.arrays import DType, check_array, check_shape, lend
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.isa import Isa

UNIT_BITS = 80
"""The unit of an exact scalar product is 2 to the power of minus this."""

SHARD_COLUMNS = 1024
"""A shard of floats has a multiple of so many columns, except for the last one of a tensor."""


def float_gram(
    rows: NDArray[Any] | Sequence[NDArray[Any]],
    *,
    dtype: DType = "f32",
    into: NDArray[np.uint64] | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.uint64]:
    """Returns the scalar products of plain contributions, [n, n, 2]. O(n^2 d / 2).

    Args:
        rows: n rows of equal length: a tensor, or a shard of `SHARD_COLUMNS` or multiples of it.
        dtype: their type; bf16 is passed as uint16.
        into: [n, n, 2]; the products are added to it. A new matrix if None.
        isa: instruction set; the fastest if None.
        threads: number of threads; all if None.

    Raises:
        InputError: no contributor or column, rows of unequal length, a NaN or infinity, or a
            squared norm of 2^40 or more (reported with the contributor); `into` is incomplete then.
        TypeError: an array that does not match its dtype.
        ValueError: memory that cannot be borrowed, an unknown dtype or instruction set, no threads.
    """
    lent = [lend(f"rows[{i}]", row[None], dtype)[0] for i, row in enumerate(rows)]
    total = _exact(len(lent), into)
    _core.add_float_gram(lent, dtype, total, (isa, threads))
    return total


def sign_gram(
    hamming: NDArray[np.uint64],
    cols: int,
    scales: NDArray[np.float32],
    *,
    into: NDArray[np.uint64] | None = None,
) -> NDArray[np.uint64]:
    """Returns the scalar products of one tensor's signs times scales, [n, n, 2].

    Args:
        hamming: [n, n], see `zoo.core.hamming`, over all columns of the tensor.
        cols: columns of the tensor.
        scales: [n], finite, at least 0.
        into: as in `float_gram`.

    Raises:
        InputError: an invalid scale, or a squared norm of 2^40 or more (with the contributor).
        TypeError: an array of the wrong type.
    """
    check_array("scales", scales, "float32", ndim=1)
    check_array("hamming", hamming, "uint64")
    check_shape("hamming", hamming, (len(scales), len(scales)))
    total = _exact(len(scales), into)
    _core.add_sign_gram(hamming, cols, scales, total)
    return total


def lowrank_gram(
    a: Sequence[NDArray[np.float32]],
    b: Sequence[NDArray[np.float32]],
    *,
    into: NDArray[np.uint64] | None = None,
    threads: int | None = None,
) -> NDArray[np.uint64]:
    """Returns the scalar products of one tensor's low-rank contributions, [n, n, 2].

    The matrices `d[o, i] = sum over k of b[k, o] a[k, i]` are not made.

    Args:
        a: of each contributor, [rank, inputs]; ranks may differ.
        b: [rank, outputs].
        into: as in `float_gram`.
        threads: number of threads; all if None.

    Raises:
        InputError: no contributor, factors that do not fit each other or the others', a NaN or
            infinity, or a squared norm of 2^40 or more (with the contributor).
        TypeError: an array of the wrong type.
    """
    if len(a) != len(b) or not a:
        raise InputError(
            f"factors: expected as many b as a, at least one, got {len(a)}, {len(b)}",
            code="core.factors_differ",
        )
    for i, (one, other) in enumerate(zip(a, b, strict=True)):
        check_array(f"a[{i}]", one, "float32")
        check_array(f"b[{i}]", other, "float32")
        check_shape(f"a[{i}]", one, (one.shape[0], a[0].shape[1]))
        check_shape(f"b[{i}]", other, (one.shape[0], b[0].shape[1]))
    total = _exact(len(a), into)
    _core.add_lowrank_gram(list(a), list(b), (a[0].shape[1], b[0].shape[1]), total, threads)
    return total


def exact_products(gram: NDArray[np.uint64]) -> list[list[int]]:
    """Returns the numbers of units in a Gram matrix, [n][n]."""
    low, high = gram[..., 0].tolist(), gram[..., 1].view("int64").tolist()
    return [
        [l_half | h_half << 64 for l_half, h_half in zip(*lines, strict=True)]
        for lines in zip(low, high, strict=True)
    ]


def whole_gram(gram: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns a Gram matrix rounded by one power of two, so that all sums of the rules fit 64 bits.

    The largest squared norm keeps 60 bits less twice the binary digits of n; halves go up.
    """
    import numpy as np

    check_array("gram", gram, "uint64", ndim=3)
    check_shape("gram", gram, (len(gram), len(gram), 2))
    whole = np.empty((len(gram), len(gram)), np.int64)
    _core.whole_gram(gram, len(gram), whole)
    return whole


def nearest(
    gram: NDArray[np.int64], count: int, *, threads: int | None = None
) -> NDArray[np.uint8]:
    """Returns a matrix, [n, n]: 1 where the column is one of the row's `count` nearest, itself too.

    Args:
        gram: see `whole_gram`.
        count: how many, 1 to n.
        threads: number of threads; all if None.

    Raises:
        InputError: not that many.
    """
    import numpy as np

    n = _check_gram(gram)
    if not 1 <= count <= n:
        raise InputError(f"nearest: expected 1 to {n}, got {count}", code="core.out_of_range")
    chosen = np.empty((n, n), np.uint8)
    _core.nearest(gram, (n, count), chosen, threads)
    return chosen


def mix_gram(
    gram: NDArray[np.int64],
    chosen: NDArray[np.uint8],
    *,
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.int64]:
    """Returns `W G W^T`: the Gram matrix of the sums of those that each row of W chooses.

    O(n^3 / 8). Exact if `gram` comes from `whole_gram`.

    Args:
        gram: G, see `whole_gram`.
        chosen: W, see `nearest`.
        isa: instruction set; the fastest if None.
        threads: number of threads; all if None.
    """
    import numpy as np

    n = _check_gram(gram)
    check_array("chosen", chosen, "uint8")
    check_shape("chosen", chosen, (n, n))
    mixed = np.empty_like(gram)
    _core.mix_gram(gram, chosen, n, mixed, (isa, threads))
    return mixed


def krum_order(
    gram: NDArray[np.int64], f: int, *, threads: int | None = None
) -> NDArray[np.uint64]:
    """Returns the contributors, [n], those that Krum prefers first (arXiv:1703.02757).

    The score is the sum of the squared distances to the n - f - 2 nearest others.

    Raises:
        InputError: no such others.
    """
    import numpy as np

    n = _check_gram(gram)
    if not 0 <= f <= n - 3:
        raise InputError(
            f"f: expected 0 to {n - 3} with {n} contributors, got {f}", code="core.out_of_range"
        )
    order = np.empty(n, np.uint64)
    _core.krum_order(gram, (n, n - f - 2), order, threads, one_by_one=False)
    return order


def bulyan_order(
    gram: NDArray[np.int64], f: int, *, threads: int | None = None
) -> NDArray[np.uint64]:
    """Returns the n - 2 f contributors that Bulyan takes, in that order (arXiv:1802.07927).

    Each is Krum's first among those that are left, by the distances to all of these but f + 2.

    Raises:
        InputError: fewer than 4 f + 3 contributors.
    """
    import numpy as np

    n = _check_gram(gram)
    if not 0 <= 4 * f <= n - 3:
        raise InputError(
            f"f: expected 0 to {(n - 3) // 4} with {n} contributors, got {f}",
            code="core.out_of_range",
        )
    order = np.empty(n - 2 * f, np.uint64)
    _core.krum_order(gram, (n, f), order, threads, one_by_one=True)
    return order


def _exact(n: int, into: NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    import numpy as np

    total = np.zeros((n, n, 2), np.uint64) if into is None else into
    check_array("into", total, "uint64", ndim=3, writable=True)
    check_shape("into", total, (n, n, 2))
    return total


def _check_gram(gram: NDArray[np.int64]) -> int:
    check_array("gram", gram, "int64")
    check_shape("gram", gram, (len(gram), len(gram)))
    return len(gram)
