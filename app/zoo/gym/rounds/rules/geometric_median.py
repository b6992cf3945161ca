"""The geometric median in Gram space: 50 steps of Weiszfeld's algorithm (RFA, arXiv:1912.13445).

The point is a weighted mean of the contributions, `z = sum of w_j x_j`, so that its squared
distance to x_i is `g_ii - 2 (G w)_i + w^T G w`. The steps start from the mean.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEPS = 50
NEAREST = 2.0**-32
"""Distances count as at least this share of the median squared norm: the point may meet one."""


def geometric_median(gram: "NDArray[np.int64]") -> "NDArray[np.float32]":
    """Returns the weight of each contribution, float32, [n], above 0.

    Float64, each sum in index order: the same bits on every machine.
    """
    import numpy as np

    n = len(gram)
    products = gram.astype(np.float64)
    norms = np.diagonal(products)
    least = max(1.0, float(np.sort(norms)[(n - 1) // 2]) * NEAREST)
    weights = np.full(n, 1 / n)
    for _ in range(STEPS):
        to_point = np.cumsum(products * weights, axis=1)[:, -1]
        own = np.cumsum(to_point * weights)[-1]
        distances = np.sqrt(np.maximum(norms - 2 * to_point + own, least))
        inverse = np.sqrt(least) / distances
        weights = inverse / np.cumsum(inverse)[-1]
    return weights.astype(np.float32)
