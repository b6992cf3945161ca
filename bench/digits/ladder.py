"""Contributors of known quality: a share of their labels is wrong, from none to nine tenths."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.digits.images import load_digits, mirror
from bench.digits.network import Floats, gradient, losses, random_network, slices, train
from bench.digits.setting import BASE_EPOCHS, BASE_RATE, EPOCHS, RATE, Examples

CONTRIBUTORS = 10
OWN = 80
"""Examples of a contributor."""

WORST = 0.9
"""The share of labels of the last contributor that are drawn anew."""

HELD_OUT, POOL = slice(0, 400), slice(600, 1500)
"""Of the shuffled images; those after them train the base."""


@dataclass(frozen=True)
class Ladder:
    """What contributors send whose labels get worse from one to the next.

    Attributes:
        base: the weights that all start from, [D].
        sent: what each sends, float32 [n, D].
        held_out: examples that values are measured on.
    """

    base: Floats
    sent: Floats
    held_out: Examples

    def gain(self, change: Floats) -> float:
        """Returns how much less the loss is with a change, in nats."""
        images, labels = self.held_out.images, self.held_out.labels
        before, after = (losses(w, images, labels) for w in (self.base, self.base + change))
        return float((before - after).mean())

    def mean_gradient(
        self, change: Floats, points: tuple[float, ...]
    ) -> dict[str, NDArray[np.float32]]:
        """Returns the mean gradient at some points of the way from the base, by tensor."""
        weights = np.stack([(self.base + t * change).astype(np.float32) for t in points])
        images = np.repeat(self.held_out.images[None], len(points), axis=0)
        labels = np.repeat(self.held_out.labels[None], len(points), axis=0)
        mean = gradient(weights, images, labels).mean(axis=0)
        return {name: mean[part] for name, part in slices().items()}


def make_ladder(seed: int) -> Ladder:
    """Returns contributors of falling quality.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    images, labels = load_digits()
    moved, rng = mirror(images), np.random.default_rng(seed)
    order = rng.permutation(len(images))
    first = order[POOL.stop :]
    start = random_network(rng)
    base = train(start, images[None, first], labels[None, first], BASE_EPOCHS, BASE_RATE, [seed])[0]
    own = np.stack([rng.choice(order[POOL], OWN, replace=False) for _ in range(CONTRIBUTORS)])
    given = labels[own]
    for row, share in enumerate(np.linspace(0, WORST, CONTRIBUTORS)):
        wrong = rng.random(OWN) < share
        given[row, wrong] = rng.integers(0, 10, int(wrong.sum()))
    tuned = train(base, moved[own], given, EPOCHS, RATE, list(range(CONTRIBUTORS)))
    held_out = Examples(moved[order[HELD_OUT]], labels[order[HELD_OUT]])
    return Ladder(base, tuned - base, held_out)
