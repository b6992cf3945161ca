"""Contributions that are far too long are refused before any rule sees them.

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


def outsized(gram: "NDArray[np.uint64]") -> list[int]:
    """Returns the contributors that are refused for their size.

    Args:
        gram: exact scalar products, [n, n, 2].
    """
    import numpy as np

    from zoo.core.gram import exact_products

    diagonal = np.ascontiguousarray(gram[np.arange(len(gram)), np.arange(len(gram))])[None]
    norms = exact_products(diagonal)[0]
    middle = sorted(norms)[(len(norms) - 1) // 2]
    return [row for row, norm in enumerate(norms) if middle and norm > LONGEST**2 * middle]
