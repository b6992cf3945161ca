"""REINFORCE with a leave-one-out baseline: the loss of whole answers (arXiv:2402.14740, eq. 8).

Legend: B answers, T positions. An answer is one action: its ratio is that of the probabilities of
all its tokens together. The divergence from the reference is part of the reward, not of the loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.objectives.constants import WINDOW_ROWS
from zoo.gym.objectives.grpo import ADVANTAGES, OLD_LOGPROBS
from zoo.gym.objectives.logprob_loss import LogprobLoss
from zoo.gym.objectives.weights import row_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


@dataclass(frozen=True)
class LeaveOneOutLoss(LogprobLoss):
    """The clipped policy-gradient loss with the ratio of whole answers, averaged over answers.

    Attributes:
        epsilon: the ratio's lower bound is 1 - epsilon.
        epsilon_high: its upper bound is 1 + epsilon_high.
    """

    epsilon: float = 0.2
    epsilon_high: float = 0.2

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss; with `old_logprobs`, also the shares of answers that are clipped."""
        from zoo.backends.base import Stat

        logprobs_BT, advantages_B = stats[Stat.LOGPROBS], batch[ADVANTAGES]
        old_BT = batch.get(OLD_LOGPROBS)
        old_BT = xp.stop_gradient(logprobs_BT) if old_BT is None else old_BT
        ratio_B = xp.exp(xp.sum((logprobs_BT - old_BT) * batch["mask"], axis=-1))
        low, high, rows = 1 - self.epsilon, 1 + self.epsilon_high, batch[WINDOW_ROWS]
        clipped_B = xp.clip(ratio_B, low, high)
        gain_B = xp.minimum(ratio_B * advantages_B, clipped_B * advantages_B)
        loss = -xp.sum(row_weights(batch) * gain_B) / rows
        if OLD_LOGPROBS not in batch:
            return loss, {}
        ones_B, zeros_B = xp.ones_like(ratio_B), xp.zeros_like(ratio_B)
        is_low = (ratio_B < low) & (advantages_B < 0)
        is_high = (ratio_B > high) & (advantages_B > 0)
        return loss, {
            "clip_low": xp.sum(xp.where(is_low, ones_B, zeros_B)) / rows,
            "clip_high": xp.sum(xp.where(is_high, ones_B, zeros_B)) / rows,
        }
