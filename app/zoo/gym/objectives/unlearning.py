"""Unlearning: answers become unlikely, while others stay as likely as they were or become likelier.

NPO (arXiv:2404.05868, eq. 3) is DPO with only the worse answer: of an answer to forget, r is the
log of policy over reference, and the loss -2/beta * log sigmoid(-beta * r), which falls ever more
slowly as the answer becomes unlikely. SimNPO (arXiv:2410.07163) has no reference: r is the mean
log-probability of its tokens, and a margin gamma is subtracted: -2/beta * log sigmoid(-beta * r -
gamma). Both add the negative log-likelihood of the answers to retain, per token, with a weight.

Legend: B rows, T positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zoo.gym.data.units import RATING
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.objectives.logprob_loss import LogprobLoss
from zoo.gym.objectives.pairs import mean_logprobs
from zoo.gym.objectives.weights import row_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat

WINDOW_FORGET = "window_forget"
"""The number of answers to forget in the window."""

WINDOW_FORGET_TOKENS = "window_forget_tokens"
"""Their tokens."""

WINDOW_RETAIN_TOKENS = "window_retain_tokens"
"""The tokens of the answers to retain."""


@dataclass(frozen=True)
class UnlearningLoss(LogprobLoss):
    """The mean over answers to forget, plus the weighted mean over tokens to retain.

    Attributes:
        loss: `npo` or `simnpo`.
        beta: how fast the loss of an answer falls as it becomes unlikely.
        gamma: the margin of SimNPO.
        retain: the weight of the answers to retain.
    """

    loss: Literal["npo", "simnpo"] = "npo"
    beta: float = 0.1
    gamma: float = 0.0
    retain: float = 1.0

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss and its metrics.

        The metrics are `forget_nll` and `retain_nll`, the negative log-likelihood per token of the
        answers to forget and to retain, each only if the window has such answers.
        """
        from zoo.backends.base import Stat

        mask_BT = batch["mask"]
        forget_B, logprob_B = batch[RATING] < 0, xp.sum(stats[Stat.LOGPROBS] * mask_BT, axis=-1)
        ones_B, zeros_B = xp.ones_like(logprob_B), xp.zeros_like(logprob_B)
        forget_B = xp.where(forget_B, ones_B, zeros_B)
        gain_B = (
            logprob_B - xp.sum(batch[REF_LOGPROBS] * mask_BT, axis=-1)
            if self.loss == "npo"
            else mean_logprobs(xp, stats, batch)
        )
        falls_B = -xp.log_sigmoid(-self.beta * gain_B - self.gamma)
        weights_B = row_weights(batch)
        forgotten = xp.sum(weights_B * forget_B * falls_B) * (2 / self.beta)
        loss = forgotten / max(batch[WINDOW_FORGET], 1.0)
        metrics: dict[str, Array] = {}
        if batch[WINDOW_FORGET_TOKENS]:
            nll = -xp.sum(forget_B * logprob_B) / batch[WINDOW_FORGET_TOKENS]
            metrics["forget_nll"] = nll
        if batch[WINDOW_RETAIN_TOKENS]:
            tokens, retained_B = batch[WINDOW_RETAIN_TOKENS], (1 - forget_B) * logprob_B
            loss = loss - self.retain * xp.sum(weights_B * retained_B) / tokens
            metrics["retain_nll"] = -xp.sum(retained_B) / tokens
        return loss, metrics
