"""Supervised fine-tuning: the negative log-likelihood of the learned tokens.

Its gradient is largest for the tokens that the model finds least likely. Dynamic fine-tuning (DFT,
arXiv:2508.05629) multiplies the loss of each token by its probability p, which is a constant for
the gradient: p * -log p.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.logprob_loss import LogprobLoss

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


@dataclass(frozen=True)
class SupervisedLoss(LogprobLoss):
    """Mean of -log p over the window's learned tokens, however it is split into micro-batches.

    Dividing by the window's count, not by each micro-batch's, keeps every token's weight equal
    when rows differ in length.

    Attributes:
        dft: multiply each token's loss by its probability.
    """

    dft: bool = False

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss in nats per token: `-sum(logprobs * mask) / window_tokens`.

        With `dft` it is another number, and the metric `nll` is the one above.
        """
        from zoo.backends.base import Stat

        logprobs_BT = stats[Stat.LOGPROBS] * batch["mask"]
        nll = -xp.sum(logprobs_BT) / batch[WINDOW_TOKENS]
        if not self.dft:
            return nll, {}
        weighted_BT = logprobs_BT * xp.stop_gradient(xp.exp(logprobs_BT))
        return -xp.sum(weighted_BT) / batch[WINDOW_TOKENS], {"nll": nll}
