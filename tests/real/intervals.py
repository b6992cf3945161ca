"""Bootstrap intervals of the figures that a test of a real model prints.

Legend: N held-out rows.
"""

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000


def interval(values_N: NDArray[np.float64]) -> tuple[float, float]:
    """Returns the 95 % percentile interval of a mean: held-out rows are drawn with replacement."""
    rows = np.random.default_rng(0).integers(len(values_N), size=(DRAWS, len(values_N)))
    low, high = np.quantile(values_N[rows].mean(1), [0.025, 0.975])
    return float(low), float(high)


def line(name: str, values_N: NDArray[np.float64]) -> str:
    """Returns a mean with its interval, to be printed.

    >>> line("base", np.array([1.0, 1.0]))
    'base 1.000 [1.000, 1.000]'
    """
    low, high = interval(values_N)
    return f"{name} {values_N.mean():.3f} [{low:.3f}, {high:.3f}]"
