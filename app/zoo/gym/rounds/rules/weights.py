"""The weight of each contribution, by those rules that see contributions through their Gram matrix.

All but two of them work in integers: the mean, Krum and Multi-Krum (arXiv:1703.02757; the latter
keeps m = n - f, its first proof is arXiv:2602.03899), each also after nearest-neighbour mixing
(NNM, arXiv:2302.01772). With W the 0/1 matrix of neighbours a weight is how often a contribution is
a neighbour of one that was selected: an integer, over m (n - f).

Norm clipping and the geometric median need roots: these, and sums in index order, in float64.
"""

from dataclasses import dataclass

from zoo.gym.rounds.arrays import F32, Whole
from zoo.gym.rounds.rules.method import AggregationMethod, Rule

STEPS = 50
NEAREST = 2.0**-32
"""Distances count as at least this share of the median squared norm: the point may meet one."""


@dataclass(frozen=True)
class Weighing:
    """What a rule gives each contribution.

    Attributes:
        weights: float32, [n], at least 0: divided by their sum and `rest`. Integers unless the rule
            needs roots.
        rest: the weight of a contribution that changes nothing; only norm clipping has one.
    """

    weights: F32
    rest: float = 0


def weigh(
    rule: Rule,
    gram: "Whole | None",
    count: int,
    claims: "F32 | None" = None,
    *,
    threads: int | None = None,
) -> Weighing:
    """Returns the weights of a rule that results in a weighted mean.

    Args:
        rule: one of those; it must fit the number of contributors, see `Rule.check`.
        gram: see `zoo.core.whole_gram`, rows in the order of their digests; None for the means.
        claims: numbers of examples for the federated average, reputations for the weighted mean.
    """
    import numpy as np

    from zoo.core import mix_gram, nearest

    if gram is None:
        return Weighing(np.ones(count, np.float32) if claims is None else claims)
    if not rule.mixes:
        return _of_rows(rule, gram, threads)
    chosen = nearest(gram, count - rule.f, threads=threads)
    mixed = _of_rows(rule, mix_gram(gram, chosen, threads=threads), threads)
    weights = np.zeros(count)
    for line, weight in zip(chosen, mixed.weights.tolist(), strict=True):  # in order
        weights += weight * line
    # the rest stands for whole contributions, each of n - f parts
    return Weighing(weights.astype(np.float32), mixed.rest * (count - rule.f))


def _of_rows(rule: Rule, gram: Whole, threads: int | None) -> Weighing:
    import numpy as np

    n = len(gram)
    match rule.method:
        case AggregationMethod.KRUM:
            return Weighing(_first(gram, rule.f, 1, threads))
        case AggregationMethod.MULTI_KRUM | AggregationMethod.BYZANTINE_ROBUST:
            return Weighing(_first(gram, rule.f, n - rule.f, threads))
        case AggregationMethod.GEOMETRIC_MEDIAN:
            return Weighing(_geometric_median(gram))
        case AggregationMethod.NORM_CLIP:
            return _clipped(gram)
        case _:
            return Weighing(np.ones(n, np.float32))


def _first(gram: Whole, f: int, seats: int, threads: int | None) -> F32:
    """One for each of the first of Krum's order, as many as there are seats."""
    import numpy as np

    from zoo.core import krum_order

    weights = np.zeros(len(gram), np.float32)
    weights[krum_order(gram, f, threads=threads)[:seats]] = 1
    return weights


def _clipped(gram: Whole) -> Weighing:
    """Each contribution is shortened to the lower median of the norms: 1 or the norms' ratio."""
    import numpy as np

    n = len(gram)
    norms = np.diagonal(gram).astype(np.float64)
    middle = np.sort(norms)[(n - 1) // 2]
    ratios = np.sqrt(middle / np.maximum(norms, 1))
    weights = np.minimum(1, ratios).astype(np.float32)
    total = float(np.cumsum(weights.astype(np.float64))[-1])
    return Weighing(weights, max(0.0, n - total))


def _geometric_median(gram: Whole) -> F32:
    """Each weight of the geometric median, by Weiszfeld's algorithm (RFA, arXiv:1912.13445).

    The point is a weighted mean of the contributions, `z = sum of w_j x_j`, so that its squared
    distance to x_i is `g_ii - 2 (G w)_i + w^T G w`. The steps start from the mean.
    """
    import numpy as np

    n = len(gram)
    products = gram.astype(np.float64)
    norms = np.diagonal(products)
    least = max(1.0, float(np.sort(norms)[(n - 1) // 2]) * NEAREST)
    weights = np.full(n, 1 / n)
    for _ in range(STEPS):
        to_point = np.cumsum(products * weights, axis=1)[:, -1]
        norm = np.cumsum(to_point * weights)[-1]
        distances = np.sqrt(np.maximum(norms - 2 * to_point + norm, least))
        inverse = np.sqrt(least) / distances
        weights = inverse / np.cumsum(inverse)[-1]
    return weights.astype(np.float32)
