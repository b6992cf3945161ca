"""Attacks by several keys of one sender: copies of an honest delta, or parts of a malicious one."""

import numpy as np
from numpy.typing import NDArray

from bench.attacks.view import View

SPLIT = 10
"""A Sybil split sends minus the honest mean in all, times so much, in parts."""


def copycat(view: View) -> NDArray[np.floating]:
    """Sends the delta of the first honest contributor, f times."""
    return view.all_send(view.honest[0].astype("float64"))


def mimic(view: View) -> NDArray[np.floating]:
    """Sends f times the honest delta that is farthest out on their first principal direction.

    Nothing is malicious about it, but it counts f + 1 times (arXiv:2006.09365).
    """
    centred = view.honest - view.mean
    _, directions = np.linalg.eigh(centred @ centred.T)
    farthest = int(np.abs(directions[:, -1]).argmax())
    return view.all_send(view.honest[farthest].astype(np.float64))


def sybil_split(view: View) -> NDArray[np.floating]:
    """Divides ten sign-flipped means among the keys, each part in noise of the honest size."""
    rng = np.random.default_rng((view.seed, 3))
    noise = rng.standard_normal(view.own.shape) * view.spread
    noise -= noise.mean(axis=0)
    return noise - SPLIT / max(1, view.f) * view.mean
