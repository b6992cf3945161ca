"""An attacker who knows everything: the honest deltas, the rule, and what a gate measures.

The malicious contributions are the honest mean plus a strength times a direction. Every direction
is tried with every strength, with all of the f keys and with half of them (the others send
honestly); the round that has the highest loss on the public examples counts. A gated attacker is
left with what passes a gate: the one-sided 95 % upper bound of the loss it adds to the base, on the
public examples, is at most 0.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bench.attacks.view import View
from bench.digits.network import Floats, gradient

STRENGTHS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)

STUDENT_99 = 1.66
"""The one-sided 95 % quantile of Student's t with 99 degrees of freedom, for 100 examples."""


def adapt(
    view: View,
    aggregate: Callable[[Floats], Floats],
    coded: Callable[[Floats], Floats],
    *,
    gated: bool,
) -> Floats:
    """Returns the worst result that the attacker finds, [D].

    Args:
        view: what it knows.
        aggregate: the round: all contributions, [n, D], to the result.
        coded: what a contribution is in the round's form, which is what a gate measures.
        gated: whether each malicious contribution must pass the gate; if none does, nobody attacks.
    """
    worst = aggregate(view.setting.honest)
    highest = -np.inf
    for sent, keys in _tries(view):
        if gated and not passes(view, coded(sent[None])[0]):
            continue
        malicious = np.concatenate([np.repeat(sent[None], keys, 0), view.honest[: view.f - keys]])
        result = aggregate(np.concatenate([malicious, view.honest]))
        loss = float(view.setting.public_losses(result).mean())
        if loss > highest:
            worst, highest = result, loss
    return worst


def passes(view: View, delta: Floats) -> bool:
    """Returns whether a gate accepts a contribution."""
    added = view.setting.public_losses(delta) - view.setting.public_losses()
    bound = added.mean() + STUDENT_99 * added.std(ddof=1) / np.sqrt(added.size)
    return bool(bound <= 0)


def _tries(view: View) -> Iterator[tuple[Floats, int]]:
    for direction in directions(view).values():
        for strength in STRENGTHS:
            sent = (view.mean + strength * direction).astype(np.float32)
            for keys in sorted({view.f, max(1, view.f // 2)}):
                yield sent, keys


def directions(view: View) -> dict[str, NDArray[np.float64]]:
    """Returns where the attacker would move the mean, by name, each about as long as the spread."""
    mean, spread = view.mean, view.spread
    return {
        "against the mean": -mean,
        "against the signs": -spread * np.sign(mean),
        "against the spread": -spread,
        "equal steps": -np.sign(mean) * np.abs(mean).mean(),
        "against the tail": np.median(view.honest, axis=0) - mean,
        "up the gate's loss": _uphill(view, 1),
        "further up the gate's loss": _uphill(view, 2),
    }


def _uphill(view: View, steps: int) -> NDArray[np.float64]:
    """Climbs from the honest mean along the gradient of the public loss, in steps of one length."""
    setting, length = view.setting, float(np.linalg.norm(view.spread))
    images, labels = setting.public.images[None], setting.public.labels[None]
    moved = np.zeros_like(view.mean)
    for _ in range(steps):
        weights = (setting.base + view.mean + moved).astype(np.float32)
        slope = gradient(weights[None], images, labels)[0].astype(np.float64)
        moved += slope / np.linalg.norm(slope) * length / steps
    return moved / np.linalg.norm(moved) * length
