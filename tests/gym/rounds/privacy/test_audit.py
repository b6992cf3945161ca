"""An attacker who knows everything but one contribution: what can be told from 1e5 results.

The attacker sees the noisy sum with a contribution or with zeros in its place, and decides by the
likelihood ratio. A promise of (epsilon, delta) bounds true alarms by exp(epsilon) times false ones
plus delta, so rates at any threshold give a lower bound of epsilon (one-sided, 99.9 %).
"""

from math import exp, inf, log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.gym.rounds.privacy.conftest import privacy
from zoo.gym.rounds.privacy.contribution import clip_steps, to_steps
from zoo.gym.rounds.privacy.mechanism import add_noise
from zoo.gym.rounds.protocol.privacy import Privacy

TRIALS = 100_000
VALUES = 4
DEVIATIONS = 4.5
"""Of a rate: 99.9 % one-sided for each of 200 thresholds together (Bonferroni)."""


def results(steps: NDArray[np.int64], promised: Privacy) -> NDArray[np.float64]:
    """Returns the scalar products of many noisy sums with a contribution of the clip's norm."""
    total = np.tile(steps, TRIALS)
    add_noise(total, promised)
    direction = np.array([1.0, -2.0, 2.0, 4.0]) / 5
    return total.reshape(TRIALS, VALUES) @ direction / promised.clip_steps


def least_epsilon(there: NDArray[np.float64], absent: NDArray[np.float64], delta: float) -> float:
    """Returns a lower bound of epsilon by the best threshold."""
    found = 0.0
    for threshold in np.linspace(-3, 10, 200):
        low = score_bound((there > threshold).mean(), -DEVIATIONS) - delta
        high = score_bound((absent > threshold).mean(), DEVIATIONS)
        found = max(found, log(low / high) if low > 0 else -inf)
    return found


def score_bound(rate: float, z: float) -> float:
    """Returns Wilson's bound of a rate at z deviations, which also holds where few were counted."""
    n = TRIALS
    half = z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return float((rate + z * z / (2 * n) + half) / (1 + z * z / n))


def contribution(promised: Privacy, length: float) -> NDArray[np.int64]:
    values = np.array([1.0, -2.0, 2.0, 4.0], np.float32) / 5 * promised.clip * length
    return to_steps(values.astype(np.float32), promised.scale, promised.clip)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_nobody_tells_a_contribution_better_than_promised(epsilon: float) -> None:
    promised = privacy(epsilon=epsilon, delta=1e-3)
    clipped = clip_steps(contribution(promised, 5.0), promised.clip_steps)
    there, absent = results(clipped, promised), results(0 * clipped, promised)
    bound = least_epsilon(there, absent, promised.delta)
    assert bound <= epsilon
    assert bound > 0.4 * epsilon, "the attack is too weak to say anything"


@pytest.mark.slow
def test_the_same_attacker_sees_what_was_not_clipped() -> None:
    promised = privacy(epsilon=1.0, delta=1e-3)
    long = contribution(promised, 3.0)
    there, absent = results(long, promised), results(0 * long, promised)
    assert least_epsilon(there, absent, promised.delta) > 2.0


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_exp_epsilon_allows() -> None:
    """The bound at one threshold, without a search: true <= exp(epsilon) false + delta."""
    promised = privacy(epsilon=1.0, delta=1e-3)
    clipped = clip_steps(contribution(promised, 1.0), promised.clip_steps)
    there, absent = results(clipped, promised), results(0 * clipped, promised)
    for threshold in (0.0, promised.noise, 2 * promised.noise):
        true, false = (there > threshold).mean(), (absent > threshold).mean()
        assert true <= exp(1.0) * false + 1e-3 + DEVIATIONS * sqrt(2 * true / TRIALS)
