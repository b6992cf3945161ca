"""Intervals of a mean and of a paired difference, at 95 %.

The interval of scores between 0 and 1 that are paired by row has half a row more in each cell of
the table of pairs (Agresti and Min 2005, doi:10.1002/sim.1781): few pairs that differ, or none,
leave it a width. `signflip.interval` of lessons has none then, and takes seconds for 10,000 rows.
Figures without bounds, such as losses, have Student's interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from zoo.gym.refusals import wilson

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; the ends are infinite where it has none."""

    value: float
    low: float
    high: float

    @property
    def is_proven(self) -> bool:
        """Whether a difference is not 0: its interval has one sign."""
        return self.low > 0 or self.high < 0


def student(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's distribution, to two digits from 5 degrees on.

    Args:
        degrees: the degrees of freedom; below 3 the expansion is too wide of the truth, and the
            quantile is infinite.

    Example:
        >>> [round(student(count), 3) for count in (5, 30, 1000)]
        [2.568, 2.042, 1.962]
    """
    if degrees < 3:
        return math.inf
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / degrees + second / degrees**2 + third / degrees**3


def mean_of(values: Sequence[float]) -> Estimate:
    """Returns the mean; of zeros and ones with Wilson's interval, else with Student's."""
    if set(values) <= {0.0, 1.0}:
        count = round(sum(values))
        return Estimate(count / len(values), *wilson(count, len(values)))
    return _student(values)


def difference_of_scores(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Returns the mean of `second` less that of `first`, scores from 0 to 1 of the same rows."""
    differences = [after - before for before, after in zip(first, second, strict=True)]
    count = len(differences) + 2
    middle = sum(differences) / count
    spread = (1 + sum(each * each for each in differences)) / count - middle * middle
    half = _Z * math.sqrt(spread / count)
    return Estimate(fmean(differences), max(-1.0, middle - half), min(1.0, middle + half))


def difference_of_losses(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Returns the mean of `second` less that of `first`, figures of the same rows."""
    return _student([after - before for before, after in zip(first, second, strict=True)])


def _student(values: Sequence[float]) -> Estimate:
    middle = fmean(values)
    if len(values) < 4:
        return Estimate(middle, -math.inf, math.inf)
    half = student(len(values) - 1) * math.sqrt(variance(values) / len(values))
    return Estimate(middle, middle - half, middle + half)
