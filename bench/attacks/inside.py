"""Attacks that stay within the spread of the honest contributions, and move their mean."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bench.attacks.view import Attack, View

HALVINGS = 30


def alie(strength: float | None = None) -> Attack:
    """Returns "a little is enough" (arXiv:1902.06156): the mean less some standard deviations.

    Args:
        strength: how many; None takes the paper's: as many as hide among the honest votes that the
            attacker needs for a majority.
    """

    def attack(view: View) -> NDArray[np.floating]:
        n = len(view.setting.honest)
        needed = n // 2 + 1 - view.f
        share = max(0.501, (n - view.f - needed) / (n - view.f))
        z = NormalDist().inv_cdf(share) if strength is None else strength
        return view.all_send(view.mean - z * view.spread)

    return attack


def ipm(strength: float) -> Attack:
    """Returns inner-product manipulation (arXiv:1903.03936): minus the mean, times a strength."""
    return lambda view: view.all_send(-strength * view.mean)


def fang(view: View) -> NDArray[np.floating]:
    """Sends values just outside the honest range, on the side away from the mean's sign.

    The attack on the trimmed mean of arXiv:1911.11815, with full knowledge.
    """
    rng = np.random.default_rng((view.seed, 2))
    low, high = view.honest.min(axis=0), view.honest.max(axis=0)
    below = low - rng.random(view.own.shape) * np.abs(low) * 0.5
    above = high + rng.random(view.own.shape) * np.abs(high) * 0.5
    sent: NDArray[np.float64] = np.where(view.mean > 0, below, above)
    return sent


def min_max(view: View) -> NDArray[np.floating]:
    """Sends the mean less so many standard deviations that it is no outlier.

    Its largest distance to an honest contribution is the largest one between two of them
    (Shejwalkar and Houmansadr, NDSS 2021).
    """
    honest = view.honest.astype(np.float64)
    limit = max(float(((honest - row) ** 2).sum(axis=1).max()) for row in honest)
    low, high = 0.0, 50.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        sent = view.mean - middle * view.spread
        fits = float(((honest - sent) ** 2).sum(axis=1).max()) <= limit
        low, high = (middle, high) if fits else (low, middle)
    return view.all_send(view.mean - low * view.spread)
