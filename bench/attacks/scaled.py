"""Attacks that change what the attacker's contributors would honestly send, or make noise."""

import numpy as np
from numpy.typing import NDArray

from bench.attacks.view import Attack, View


def none(view: View) -> NDArray[np.floating]:
    """Nobody attacks."""
    return view.own


def scaled(factor: float) -> Attack:
    """Returns the attack that sends the honest delta times a factor; below 0 it is a sign flip."""
    return lambda view: view.own * factor


def noise(view: View) -> NDArray[np.floating]:
    """Sends Gaussian noise, ten times as large as the honest spread."""
    rng = np.random.default_rng((view.seed, 1))
    size = 10 * float(view.spread.mean())
    return rng.standard_normal(view.own.shape) * size
