"""Kahneman-Tversky optimisation: answers that are rated good or bad, one by one.

KTO (arXiv:2402.01306, eq. 7 and 8) takes r, the log of policy over reference of an answer, and z,
an estimate of KL(policy || reference): a good answer is to gain more likelihood than z, a bad one
less. The loss is weight * (1 - sigmoid(beta * (r - z))) for good answers and weight * (1 -
sigmoid(beta * (z - r))) for bad ones. `apo_zero_unpaired` (arXiv:2408.06266, eq. 7, one answer at
a time) is the same with z = 0.

z is the mean of r over prompts with another row's answer, at least 0, and a constant: no gradient
passes through it. So it is measured before a step, and rows do not depend on each other.

Legend: B rows, T positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zoo.gym.data.units import RATING
from zoo.gym.objectives.constants import REF_LOGPROBS, WINDOW_UNITS
from zoo.gym.objectives.logprob_loss import LogprobLoss
from zoo.gym.objectives.weights import row_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat

WINDOW_KL = "window_kl"
"""z, the estimate of the divergence from the reference, in nats."""

WINDOW_GOOD = "window_good"
"""The number of good answers in the window."""

WINDOW_BAD = "window_bad"
"""The number of bad answers in the window."""


@dataclass(frozen=True)
class KtoLoss(LogprobLoss):
    """The mean over rated answers.

    Attributes:
        beta: how close the policy stays to the reference; lower lets it move further.
        loss: `kto`, or `apo_zero_unpaired`, which does not read z.
        good_weight: the weight of good answers.
        bad_weight: the weight of bad answers.
    """

    beta: float = 0.1
    loss: Literal["kto", "apo_zero_unpaired"] = "kto"
    good_weight: float = 1.0
    bad_weight: float = 1.0

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss and its metrics.

        The metrics are `accuracy`, the share of answers on their side of z; `chosen_reward` and
        `rejected_reward`, the mean of beta * r of good and of bad answers, and `margin`, their
        difference; and for `kto` z as `kl`.
        """
        from zoo.backends.base import Stat

        rating_B = batch[RATING]
        gain_B = xp.sum((stats[Stat.LOGPROBS] - batch[REF_LOGPROBS]) * batch["mask"], axis=-1)
        kl = batch[WINDOW_KL] if self.loss == "kto" else 0.0
        ahead_B = rating_B * (gain_B - kl)
        good_B = 0.5 * (1 + rating_B)
        weight_B = good_B * self.good_weight + (1 - good_B) * self.bad_weight
        weight_B = weight_B * row_weights(batch)
        loss = xp.sum(weight_B * (1 - xp.sigmoid(self.beta * ahead_B))) / batch[WINDOW_UNITS]
        right_B = xp.where(ahead_B > 0, xp.ones_like(ahead_B), xp.zeros_like(ahead_B))
        chosen = self.beta * xp.sum(good_B * gain_B) / max(batch[WINDOW_GOOD], 1.0)
        rejected = self.beta * xp.sum((1 - good_B) * gain_B) / max(batch[WINDOW_BAD], 1.0)
        metrics = {
            "accuracy": xp.sum(right_B) / batch[WINDOW_UNITS],
            "margin": chosen - rejected,
            "chosen_reward": chosen,
            "rejected_reward": rejected,
        }
        if self.loss == "kto":
            metrics["kl"] = kl * xp.sum(xp.ones_like(gain_B)) / batch[WINDOW_UNITS]
        return loss, metrics


def divergence(gains: Sequence[float]) -> float:
    """Returns z: the mean of log policy over reference of mismatched answers, at least 0."""
    return max(sum(gains) / len(gains), 0.0)
