"""The Gaussian mechanism's exact account: noise, epsilon, delta, and what several rounds add up to.

Source: Balle and Wang, arXiv:1805.06530, theorem 8, for a sensitivity of 1:

    delta(sigma, eps) = Phi(1 / (2 sigma) - eps sigma) - exp(eps) Phi(-1 / (2 sigma) - eps sigma)

Releases of the same data add up to one with 1 / sigma^2 = sum of 1 / sigma_i^2. No advantage of
sampling is claimed: who takes part is neither random nor secret.
"""

from collections.abc import Iterable
from math import erfc, exp, inf, isfinite, sqrt

from zoo.gym.errors import InputError

LEAST_EPSILON, MOST_EPSILON = 0.1, 10.0
"""Promises outside this range are refused: they are useless, or none."""

_STEPS = 200


def delta_of(sigma: float, epsilon: float) -> float:
    """Returns the delta that a noise of `sigma` sensitivities gives at an epsilon."""
    half, moved = 1 / (2 * sigma), epsilon * sigma
    return max(0.0, _phi(half - moved) - exp(epsilon) * _phi(-half - moved))


def sigma_for(epsilon: float, delta: float) -> float:
    """Returns the smallest noise, in sensitivities, that keeps a promise.

    Raises:
        InputError: an epsilon outside .1 to 10, or a delta that is not between 0 and 1.
    """
    check_promise(epsilon, delta)
    low, high = 1e-3, 1e6  # delta falls as sigma grows
    for _ in range(_STEPS):
        middle = sqrt(low * high)
        low, high = (middle, high) if delta_of(middle, epsilon) > delta else (low, middle)
    return high


def epsilon_for(sigma: float, delta: float) -> float:
    """Returns the smallest epsilon that a noise of `sigma` sensitivities gives at a delta.

    Raises:
        InputError: a delta that is not between 0 and 1, or a sigma that is not positive.
    """
    _check_delta(delta)
    if not sigma > 0:
        raise InputError(f"sigma: expected a number above 0, got {sigma}")
    low, high = 0.0, 1.0
    while delta_of(sigma, high) > delta:
        low, high = high, 2 * high
        if high > 500:
            return inf
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(sigma, middle) > delta else (low, middle)
    return high


def together(sigmas: Iterable[float]) -> float:
    """Returns the noise of one release that tells as much as all of these; infinite for none."""
    precision = sum(1 / (sigma * sigma) for sigma in sigmas)
    return 1 / sqrt(precision) if precision else inf


def check_promise(epsilon: float, delta: float) -> None:
    """Refuses a promise that is useless or none.

    Raises:
        InputError: see `sigma_for`.
    """
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise InputError(
            f"epsilon: expected {LEAST_EPSILON} to {MOST_EPSILON:g}, got {epsilon}",
            hint="more than 10 promises next to nothing; below .1 only noise is left",
        )
    _check_delta(delta)


def _check_delta(delta: float) -> None:
    if not (isfinite(delta) and 0 < delta < 1):
        raise InputError(f"delta: expected a number between 0 and 1, got {delta}")


def _phi(x: float) -> float:
    """Returns the normal distribution function; exact in both tails."""
    return erfc(-x / sqrt(2)) / 2
