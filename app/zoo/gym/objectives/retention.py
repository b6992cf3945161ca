"""Retention: on its own answers the model keeps the distribution that it had before training.

The loss is the forward KL from the model before training, a mean over the learned tokens of rows
that it answered itself (learning without forgetting, arXiv:1606.09282, section 3, here over whole
sequences and at temperature 1). So its weight depends neither on the length of the data's rows nor
on how many rows are retained.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.objectives.constants import WINDOW_TOKENS

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat

WEIGHT = 2.0
"""Of the divergence beside the data's loss; measured on SmolLM2-135M-Instruct, see docs/log.md."""


@dataclass(frozen=True)
class RetentionLoss:
    """`weight` times the divergence from the model before training, in nats per token.

    The window's constant `window_tokens` is the number of learned tokens of its retained rows.
    """

    weight: float = WEIGHT
    coupled = False
    linear = True

    @property
    def needs(self) -> "frozenset[Stat]":
        """The divergence."""
        from zoo.backends.base import Stat

        return frozenset({Stat.FORWARD_KL})

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns `weight * sum(kl * mask) / window_tokens`, and the metric `retained_kl`."""
        from zoo.backends.base import Stat

        kl = xp.sum(stats[Stat.FORWARD_KL] * batch["mask"]) / batch[WINDOW_TOKENS]
        return self.weight * kl, {"retained_kl": kl}
