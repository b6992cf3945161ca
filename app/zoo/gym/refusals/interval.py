"""The Wilson score interval of a share."""

import math

Z_95 = 1.959964
"""The standard normal quantile of 97.5 %."""


def wilson(count: float, of: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson 1927), for counts as small as these.

    >>> [round(end, 3) for end in wilson(57, 60)]
    [0.863, 0.983]
    """
    share, z2 = count / of, Z_95**2
    middle = share + z2 / (2 * of)
    half = Z_95 * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    # of none or all, rounding would leave an end a little outside
    low, high = ((middle - half) / (1 + z2 / of), (middle + half) / (1 + z2 / of))
    return max(0.0, low), min(1.0, high)
