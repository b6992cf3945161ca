"""Contributions that are far too long or too short are refused before any rule sees them.

All products share one unit, so that a huge contribution would coarsen those of the others. Less
than half of the contributors are malicious, so that the lower median of the norms is no larger than
an honest one's.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONGEST = 256
"""A norm of so many times the median is refused."""


SHORTEST = 1024
"""A norm of which the median is more than so many times is refused."""

TOO_SHORT = f"expected a change of some size, got less than 1 / {SHORTEST} of the median"


def undersized(gram: "NDArray[np.uint64]") -> list[int]:
    """Returns those who changed nearly nothing, and so would earn without having worked.

    Args:
        gram: exact scalar products, [n, n, 2].
    """
    norms, middle = _norms(gram)
    return [row for row, norm in enumerate(norms) if norm * SHORTEST**2 < middle]


def outsized(gram: "NDArray[np.uint64]") -> list[int]:
    """Returns the contributors that are refused for their size.

    Args:
        gram: exact scalar products, [n, n, 2].
    """
    norms, middle = _norms(gram)
    return [row for row, norm in enumerate(norms) if middle and norm > LONGEST**2 * middle]


def _norms(gram: "NDArray[np.uint64]") -> tuple[list[int], int]:
    import numpy as np

    from zoo.core.gram import exact_products

    diagonal = np.ascontiguousarray(gram[np.arange(len(gram)), np.arange(len(gram))])[None]
    norms = exact_products(diagonal)[0]
    return norms, sorted(norms)[(len(norms) - 1) // 2]
