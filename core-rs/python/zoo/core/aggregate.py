"""Combines many contributions: distances, votes, means and trimmed means, shard by shard.

A contribution is a row over the columns of a shard: packed signs (bit 1 is plus, least significant
first) and one scale, or plain floats. The rows are one matrix or a list of arrays, for example
views of mapped files, and are not concatenated. A model larger than memory is processed in shards,
each with a number of columns that is a multiple of 8: `hamming` accumulates over shards, all other
functions return the shard's own columns. Every instruction set, number of threads, division into
shards and order of contributors gives the same bytes. `core-rs/src/aggregate` defines the
computation exactly.

`discrete_gaussian` is the noise of a private sum. This module does not decide which contributors to
trust.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.core import _core
from zoo.core.arrays import DType, check_array, check_shape, lend
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.isa import Isa

    Packed: TypeAlias = NDArray[np.uint8] | Sequence[NDArray[np.uint8]]

MOST_SIGMA = 1 << 20
KEY_BYTES = 32


def hamming(
    rows: Packed,
    cols: int,
    *,
    into: NDArray[np.uint64] | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.uint64]:
    """Counts, for each pair of contributors, the columns in which their signs differ.

    With h of d columns different, the dot product of the signs is `d - 2 * h`: this is the Gram
    matrix that Krum (arXiv:1703.02757) and similar methods need, in exact integers. O(n^2 d / 2)
    bit operations.

    Args:
        rows: n rows of ceil(cols / 8) bytes; padding bits in the last byte are ignored.
        cols: columns of the shard.
        into: [n, n]; the counts are added to it. A new matrix if None.
        isa: instruction set; the fastest if None.
        threads: number of threads; all if None.

    Returns:
        [n, n], symmetric, zeros on the diagonal; `into` if it is given.

    Raises:
        InputError: no contributors or columns, or a row of the wrong length (identified).
        TypeError: an array of the wrong type.
        ValueError: memory that cannot be borrowed, an unknown instruction set, no threads.
    """
    import numpy as np

    lent = _rows(rows)
    total = np.zeros((len(lent), len(lent)), np.uint64) if into is None else into
    check_array("into", total, "uint64", writable=True)
    check_shape("into", total, (len(lent), len(lent)))
    _core.add_hamming(lent, cols, total, (isa, threads))
    return total


def majority(
    rows: Packed, cols: int, *, isa: Isa | None = None, threads: int | None = None
) -> NDArray[np.uint8]:
    """Returns packed signs, [ceil(cols / 8)]: plus where more than half of the rows are plus.

    A tie gives minus (0), and so do the padding bits of the last byte. Args and errors are those of
    `hamming`.
    """
    import numpy as np

    bits = np.empty(-(-cols // 8), np.uint8)
    _core.majority(_rows(rows), cols, bits, (isa, threads))
    return bits


def sign_mean(
    rows: Packed,
    cols: int,
    scales: NDArray[np.float32],
    *,
    weights: NDArray[np.float32] | None = None,
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Returns the weighted mean of sign times scale, [cols].

    The products are integer multiples of 2^-50 times the power of two above the largest one, and
    are added exactly. O(n d).

    Args:
        rows: n rows of ceil(cols / 8) bytes.
        cols: columns of the shard.
        scales: [n], finite, at least 0.
        weights: [n], finite, at least 0, not all 0; all 1 if None.
        isa: instruction set; the fastest if None.
        threads: number of threads; all if None.

    Raises:
        InputError: as `hamming`, and for an invalid scale or weight (identified).
        TypeError: an array of the wrong type.
        ValueError: as `hamming`.
    """
    import numpy as np

    lent = _rows(rows)
    weights = np.ones(len(lent), np.float32) if weights is None else weights
    _check_numbers(lent, scales=scales, weights=weights)
    means = np.empty(cols, np.float32)
    _core.sign_mean(lent, cols, scales, weights, means, (isa, threads))
    return means


def trimmed_mean(
    rows: NDArray[Any] | Sequence[NDArray[Any]],
    trim: int,
    *,
    dtype: DType = "f32",
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Returns the coordinate-wise trimmed mean of plain contributions, [cols].

    Uses a sorting network over the rows; the kept values are added in ascending order in float64.
    O(n log^2 n d).

    Args:
        rows: n rows of equal length.
        trim: values left out on each side, less than half of n.
        dtype: their type; bf16 is passed as uint16.
        isa: instruction set; the fastest if None.
        threads: number of threads; all if None.

    Raises:
        InputError: no contributor or column, rows of unequal length, a trim that leaves nothing, or
            a NaN or infinity (reported with contributor and index).
        TypeError: an array that does not match its dtype.
        ValueError: memory that cannot be borrowed, an unknown dtype or instruction set, no threads.
    """
    import numpy as np

    _check_trim(trim)
    lent = [lend(f"rows[{i}]", row[None], dtype)[0] for i, row in enumerate(rows)]
    means = np.empty(lent[0].size if lent else 0, np.float32)
    _core.trimmed_mean(lent, dtype, trim, means, (isa, threads))
    return means


def near_median(
    rows: NDArray[Any] | Sequence[NDArray[Any]],
    keep: int,
    *,
    dtype: DType = "f32",
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Returns the mean of the values around the median of plain contributions, [cols].

    Bulyan's last step (arXiv:1802.07927). Of equally near values the lower ones are kept.

    Args:
        rows: n rows of equal length.
        keep: values kept in each column, 1 to n.
        dtype: their type; bf16 is passed as uint16.
        isa: instruction set; the fastest if None.
        threads: number of threads; all if None.

    Raises:
        InputError: as `trimmed_mean`, and for another number of values to keep.
        TypeError: an array that does not match its dtype.
        ValueError: as `trimmed_mean`.
    """
    import numpy as np

    if keep < 0:
        raise InputError(
            f"keep is negative: expected at least 1, got {keep}", code="core.out_of_range"
        )
    lent = [lend(f"rows[{i}]", row[None], dtype)[0] for i, row in enumerate(rows)]
    means = np.empty(lent[0].size if lent else 0, np.float32)
    _core.near_median(lent, dtype, keep, means, (isa, threads))
    return means


def weighted_mean(
    rows: NDArray[Any] | Sequence[NDArray[Any]],
    weights: NDArray[np.float32],
    *,
    dtype: DType = "f32",
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Returns the weighted mean of plain contributions, [cols].

    Exact products are added in float64 in the order of the rows, which must therefore be fixed.

    Args:
        rows: n rows of equal length.
        weights: [n], finite, at least 0, not all 0.
        dtype: the rows' type; bf16 is passed as uint16.
        isa: instruction set; the fastest if None.
        threads: number of threads; all if None.

    Raises:
        InputError: as `trimmed_mean`, and for an invalid weight (identified); a value that is not
            finite in a row of weight 0 is not seen.
        TypeError: an array that does not match its dtype.
        ValueError: as `trimmed_mean`.
    """
    import numpy as np

    check_array("weights", weights, "float32", ndim=1)
    lent = [lend(f"rows[{i}]", row[None], dtype)[0] for i, row in enumerate(rows)]
    check_shape("weights", weights, (len(lent),))
    means = np.empty(lent[0].size if lent else 0, np.float32)
    _core.weighted_mean(lent, dtype, weights, means, (isa, threads))
    return means


def median(
    rows: NDArray[Any] | Sequence[NDArray[Any]],
    *,
    dtype: DType = "f32",
    isa: Isa | None = None,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Returns the coordinate-wise median of plain contributions, [cols].

    The mean of the two middle values if n is even. Args and errors are those of `trimmed_mean`.
    """
    trim = max(0, len(rows) - 1) // 2
    return trimmed_mean(rows, trim, dtype=dtype, isa=isa, threads=threads)


def _rows(rows: Packed) -> list[NDArray[np.uint8]]:
    lent = list(rows)
    for i, row in enumerate(lent):
        check_array(f"rows[{i}]", row, "uint8", ndim=1)
    return lent


def _check_numbers(rows: list[NDArray[np.uint8]], **numbers: NDArray[np.float32]) -> None:
    for name, array in numbers.items():
        check_array(name, array, "float32", ndim=1)
        check_shape(name, array, (len(rows),))


def _check_trim(trim: int) -> None:
    if trim < 0:
        raise InputError(
            f"trim is negative: expected at least 0, got {trim}", code="core.out_of_range"
        )


def discrete_gaussian(
    count: int, sigma: int, *, key: bytes | None = None, threads: int | None = None
) -> NDArray[np.int64]:
    """Returns independent integers with `P(x) ~ exp(-x^2 / (2 sigma^2))`, [count].

    Source: arXiv:2004.00010, algorithms 1 to 3; random bits are those of ChaCha20.

    Args:
        count: how many.
        sigma: 1 to 2^20.
        key: 32 bytes that nobody else may know, for tests; the system's randomness if None.
        threads: number of threads; all if None.

    Raises:
        InputError: a sigma outside its range.
        ValueError: a key of another length, no threads.
    """
    import numpy as np

    if not 1 <= sigma <= MOST_SIGMA:
        raise InputError(
            f"sigma: expected 1 to {MOST_SIGMA}, got {sigma}", code="core.out_of_range"
        )
    key = secrets.token_bytes(KEY_BYTES) if key is None else key
    if len(key) != KEY_BYTES:
        raise ValueError(f"key: expected {KEY_BYTES} bytes, got {len(key)}")
    values = np.zeros(count, np.int64)
    if count:
        _core.discrete_gaussian(values, sigma, key, threads)
    return values
