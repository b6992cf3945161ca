"""Supervised fine-tuning: the negative log-likelihood of the learned tokens."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo.gym.objectives.constants import WINDOW_TOKENS

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


class SupervisedLoss:
    """Mean of -log p over the window's learned tokens, however it is split into micro-batches.

    Dividing by the window's count, not by each micro-batch's, keeps every token's weight equal
    when rows differ in length.
    """

    coupled = False

    @property
    def needs(self) -> "frozenset[Stat]":
        """Only log-probabilities."""
        from zoo.backends.base import Stat

        return frozenset({Stat.LOGPROBS})

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss in nats per token: `-sum(logprobs * mask) / window_tokens`."""
        from zoo.backends.base import Stat

        return -xp.sum(stats[Stat.LOGPROBS] * batch["mask"]) / batch[WINDOW_TOKENS], {}
