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
"""Up to this number of different sums are counted exactly; beyond, signs are drawn."""

DRAWS = 4999
DRAWS_A_LEVEL = 20
"""The least draws for each unit of 1 / level."""

LEVEL = 0.05
POWER = 0.8

_UNIT = 1_000_000_000
"""Differences are counted in billionths: equal sums must be equal."""


def sign_flip_p(differences: Sequence[float], level: float = LEVEL) -> float:
    """Returns the probability of a sum this large if no difference had an effect.

    Args:
        differences: one a task; those of 0 have no effect.
        level: the probability is compared with it: drawn signs must be able to fall below it.
    """
    units = [unit for difference in differences if (unit := round(difference * _UNIT))]
    total = sum(units)
    if total <= 0:
        return 1.0
    counts: dict[int, int] = {0: 1}
    for unit in units:
        following: dict[int, int] = defaultdict(int)
        for value, count in counts.items():
            following[value + unit] += count
            following[value - unit] += count
        counts = following
        if len(counts) > MOST_SUMS:
            return _drawn_p(units, total, level)
    return sum(count for value, count in counts.items() if value >= total) / (1 << len(units))


def _drawn_p(units: Sequence[int], total: int, level: float) -> float:
    rng = random.Random(repr(units))  # noqa: S311
    hits = sum(_flipped(units, rng) >= total for _ in range(DRAWS))
    p = (1 + hits) / (DRAWS + 1)
    needed = math.ceil(DRAWS_A_LEVEL / level)
    if needed <= DRAWS or p > 10 * level:  # clear already
        return p
    hits += sum(_flipped(units, rng) >= total for _ in range(needed - DRAWS))
    return (1 + hits) / (needed + 1)


def _flipped(units: Sequence[int], rng: random.Random) -> int:
    signs = rng.getrandbits(len(units))
    return sum(unit if signs >> n & 1 else -unit for n, unit in enumerate(units))


def interval(differences: Sequence[float], level: float = 1 - LEVEL) -> tuple[float, float]:
    """Returns the means that the two-sided test does not reject.

    A shift m is not rejected as long as enough choices of signs give a larger sum of (d - m). For
    one choice that holds up to m = the mean of the differences whose sign it flips, so the bounds
    are quantiles of the means of subsets: of all of them, or of random ones of many tasks. The
    choice that flips none gives the same sum for every m and rejects nothing: with fewer than six
    tasks there are no bounds.

    `differences` has one a task, also those of 0; `level` is the confidence.
    """
    count = len(differences)
    choices: Sequence[int] = range(min(1 << count, DRAWS + 1))
    if len(choices) > DRAWS:
        rng = random.Random(repr(list(differences)))  # noqa: S311
        choices = [rng.getrandbits(count) for _ in range(DRAWS)]
    means = sorted(
        fmean(difference for n, difference in enumerate(differences) if choice >> n & 1)
        for choice in choices
        if choice
    )
    cut = int((1 - level) / 2 * len(choices)) - (len(choices) - len(means))
    return (means[cut], means[-1 - cut]) if cut >= 0 else (-math.inf, math.inf)


def tasks_needed(differences: Sequence[float], level: float) -> int | None:
    """Returns how many tasks would show an effect of the size seen, None without any."""
    mean = fmean(differences) if differences else 0.0
    if mean <= 0:
        return None
    return math.ceil((_factor(level) * max(pstdev(differences), 1e-9) / mean) ** 2)


def visible_effect(tasks: int, draws: int, level: float, variance: float) -> float:
    """Returns the mean difference that the test finds with a probability of 0.8.

    Args:
        tasks: how many are compared.
        draws: answers to each, with and without.
        level: the level of the test.
        variance: the mean over tasks of p (1 - p), where p is how often an answer is right.
    """
    return _factor(level) * math.sqrt(2 * variance / (draws * tasks)) if tasks else math.inf


def _factor(level: float) -> float:
    """Returns the effect, in standard errors, that the test finds with the probability `POWER`."""
    return NormalDist().inv_cdf(1 - level) + NormalDist().inv_cdf(POWER)
