"""The sign-flip test of paired differences, and the interval of their mean by inverting it.

Under no effect the sign of each task's difference is as likely plus as minus, so the sum is
compared with the sums over all choices of signs (Fisher's randomization test). It assumes no
distribution of rewards. The test is one-sided: does the mean exceed 0?
"""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from statistics import NormalDist, fmean, pstdev

MOST_SUMS = 20_000
"""Up to so many different sums are counted exactly; beyond, signs are drawn."""

DRAWS = 4999
DRAWS_A_LEVEL = 20
"""At least so many draws for each unit of 1 / level."""

LEVEL = 0.05
POWER = 0.8

_UNIT = 1_000_000_000
"""Differences are counted in billionths: equal sums must be equal."""


def sign_flip_p(differences: Sequence[float], level: float = LEVEL) -> float:
    """Returns the probability of a sum this large if no difference had an effect.

    Args:
        differences: one a task; those of 0 say nothing.
        level: what it is compared with: drawn signs must be able to fall below it.
    """
    whole = [round(one * _UNIT) for one in differences if round(one * _UNIT)]
    total = sum(whole)
    if total <= 0:
        return 1.0
    counts: dict[int, int] = {0: 1}
    for one in whole:
        following: dict[int, int] = defaultdict(int)
        for value, count in counts.items():
            following[value + one] += count
            following[value - one] += count
        counts = following
        if len(counts) > MOST_SUMS:
            return _drawn_p(whole, total, level)
    return sum(count for value, count in counts.items() if value >= total) / (1 << len(whole))


def _drawn_p(whole: Sequence[int], total: int, level: float) -> float:
    rng = random.Random(repr(whole))  # noqa: S311
    hits = sum(_flipped(whole, rng) >= total for _ in range(DRAWS))
    found = (1 + hits) / (DRAWS + 1)
    needed = math.ceil(DRAWS_A_LEVEL / level)
    if needed <= DRAWS or found > 10 * level:  # clear already
        return found
    hits += sum(_flipped(whole, rng) >= total for _ in range(needed - DRAWS))
    return (1 + hits) / (needed + 1)


def _flipped(whole: Sequence[int], rng: random.Random) -> int:
    signs = rng.getrandbits(len(whole))
    return sum(one if signs >> place & 1 else -one for place, one in enumerate(whole))


def interval(differences: Sequence[float], level: float = 1 - LEVEL) -> tuple[float, float]:
    """Returns the means that the two-sided test does not reject.

    A shift m is not rejected as long as enough choices of signs give a larger sum of (d - m). For
    one choice that holds up to m = the mean of the differences whose sign it flips, so the bounds
    are quantiles of the means of subsets: of all of them, or of random ones of many tasks. The
    choice that flips none gives the same sum for every m and rejects nothing: with fewer than six
    tasks there are no bounds.

    Args:
        differences: one a task, also those of 0.
        level: the confidence.
    """
    subsets = 1 << len(differences)
    if subsets <= DRAWS:
        choices: Sequence[int] = range(subsets)
    else:
        rng = random.Random(repr(list(differences)))  # noqa: S311
        choices = [rng.getrandbits(len(differences)) for _ in range(DRAWS)]
    means: list[float] = []
    for chosen in choices:
        flipped = [one for place, one in enumerate(differences) if chosen >> place & 1]
        if flipped:
            means.append(fmean(flipped))
    means.sort()
    none = len(choices) - len(means)
    cut = int((1 - level) / 2 * len(choices)) - none
    return (means[cut], means[-1 - cut]) if cut >= 0 else (-math.inf, math.inf)


def tasks_needed(differences: Sequence[float], level: float) -> int | None:
    """Returns how many tasks would show an effect of the size seen, None without any."""
    mean = fmean(differences) if differences else 0.0
    if mean <= 0:
        return None
    normal = NormalDist()
    factor = normal.inv_cdf(1 - level) + normal.inv_cdf(POWER)
    return math.ceil((factor * max(pstdev(differences), 1e-9) / mean) ** 2)


def visible_effect(tasks: int, draws: int, level: float, variance: float) -> float:
    """Returns the mean difference that the test finds with a probability of 0.8.

    Args:
        tasks: how many are compared.
        draws: answers to each, with and without.
        level: the level of the test.
        variance: the mean over tasks of p (1 - p), where p is how often an answer is right.
    """
    normal = NormalDist()
    factor = normal.inv_cdf(1 - level) + normal.inv_cdf(POWER)
    return factor * math.sqrt(2 * variance / (draws * tasks)) if tasks else math.inf
