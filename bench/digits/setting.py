"""One round of the digits: a trained base, honest contributions, and examples to measure on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.digits.images import load_digits, mirror, with_trigger
from bench.digits.network import Floats, Labels, losses, random_network, scores, train

TEST, PUBLIC, POOL = slice(0, 500), slice(500, 600), slice(600, 1500)
"""Of the shuffled images; the rest trains the base."""

OWN = 60
"""Examples of a contributor."""

BASE_EPOCHS, BASE_RATE = 40, 0.05
EPOCHS, RATE = 12, 0.03
TARGET = 0
"""The digit that the backdoor's trigger is to give."""


@dataclass(frozen=True)
class Examples:
    """Images, [B, 64], and labels, [B]."""

    images: Floats
    labels: Labels


@dataclass(frozen=True)
class Setting:
    """One round before anybody attacks.

    Attributes:
        base: the weights that all start from, [D].
        examples: the contributors' own, images [n, 60, 64].
        honest: what each would send, float32 [n, D]: tuned minus base.
        test: what the result is measured on.
        public: what the re-fit and a gate may use.
        seeds: of the contributors' training.
    """

    base: Floats
    examples: Examples
    honest: Floats
    test: Examples
    public: Examples
    seeds: list[int]

    def fine_tune(self, examples: Examples, seeds: list[int]) -> Floats:
        """Returns the deltas of contributors with these examples, [P, D]."""
        tuned = train(self.base, examples.images, examples.labels, EPOCHS, RATE, seeds)
        return tuned - self.base

    def accuracy(self, delta: Floats | None = None) -> float:
        """Returns the share of right answers of base plus delta."""
        right = self._answers(delta, self.test.images) == self.test.labels
        return float(right.mean())

    def backdoor(self, delta: Floats) -> float:
        """Returns the share of other digits that the trigger turns into the backdoor's target."""
        others = self.test.labels != TARGET
        answers = self._answers(delta, with_trigger(self.test.images[others]))
        return float((answers == TARGET).mean())

    def public_losses(self, delta: Floats | None = None) -> NDArray[np.float64]:
        """Returns the loss of base plus delta on each public example, in nats."""
        weights = self.base if delta is None else self.base + delta
        return losses(weights, self.public.images, self.public.labels)

    def _answers(self, delta: Floats | None, images: Floats) -> Labels:
        weights = self.base if delta is None else self.base + delta
        answers: NDArray[np.int64] = scores(weights, images).argmax(axis=-1)
        return answers


def make_setting(seed: int, contributors: int, alpha: float | None) -> Setting:
    """Returns a round.

    Args:
        seed: of everything random in it.
        contributors: how many.
        alpha: None gives every contributor examples of one distribution; otherwise the shares of
            the digits differ, drawn from a Dirichlet distribution with this parameter.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    images, labels = load_digits()
    moved = mirror(images)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    first = order[POOL.stop :]
    start = random_network(rng)
    base = train(start, images[None, first], labels[None, first], BASE_EPOCHS, BASE_RATE, [seed])[0]
    own = np.stack([_draw(rng, order[POOL], labels, alpha) for _ in range(contributors)])
    seeds = own[:, 0].tolist()
    examples = Examples(moved[own], labels[own])
    tuned = train(base, examples.images, examples.labels, EPOCHS, RATE, seeds)
    return Setting(
        base=base,
        examples=examples,
        honest=tuned - base,
        test=Examples(moved[order[TEST]], labels[order[TEST]]),
        public=Examples(moved[order[PUBLIC]], labels[order[PUBLIC]]),
        seeds=seeds,
    )


def _draw(rng: np.random.Generator, pool: Labels, labels: Labels, alpha: float | None) -> Labels:
    if alpha is None:
        return rng.choice(pool, OWN)
    chances = rng.dirichlet(np.full(10, alpha))[labels[pool]]
    return rng.choice(pool, OWN, p=chances / chances.sum())
