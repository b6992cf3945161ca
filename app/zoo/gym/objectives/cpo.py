"""Contrastive preference optimisation, SimPO and AlphaPO: pairs, without a reference model.

CPO (arXiv:2401.08417, eq. 3 and 5) is DPO with a uniform reference, -log sigmoid(beta * (log
p(chosen) - log p(rejected))), plus `cpo_alpha` times the negative log-likelihood of the better
answers. SimPO (arXiv:2405.14734, eq. 6) takes mean log-probabilities per token, and wants the
better answer ahead by `gamma`. AlphaPO (arXiv:2501.03884) replaces a log-probability log p by
(1 - p^-alpha) / alpha, of which log p is the limit.

Left out: nothing of these papers' losses. Label smoothing, `hinge` and `ipo` are DPO's, as in TRL.

Departure from the papers: exponents are limited to 80, so that no loss is infinite.

Legend: B rows, T positions, P pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zoo.gym.objectives.constants import WINDOW_UNITS
from zoo.gym.objectives.logprob_loss import LogprobLoss
from zoo.gym.objectives.pairs import (
    MOST_EXPONENT,
    better_nll,
    mean_logprobs,
    relu,
    reward_metrics,
    sides,
    smoothed_loss,
)
from zoo.gym.objectives.weights import pair_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


@dataclass(frozen=True)
class CpoLoss(LogprobLoss):
    """The mean over pairs, plus the likelihood of better answers.

    Attributes:
        beta: the scale of rewards.
        loss: `sigmoid` and `hinge` compare log-probabilities of whole answers, `ipo` and `simpo`
            those per token.
        cpo_alpha: the weight of the likelihood of better answers.
        gamma: the margin of `simpo`.
        label_smoothing: the probability that a label is wrong, of `sigmoid` and `simpo`.
        alpha: the shape of AlphaPO; 0 leaves log-probabilities as they are.
    """

    beta: float = 0.1
    loss: Literal["sigmoid", "hinge", "ipo", "simpo"] = "sigmoid"
    cpo_alpha: float = 1.0
    gamma: float = 0.5
    label_smoothing: float = 0.0
    alpha: float = 0.0

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss and the metrics of `reward_metrics`.

        The reward of an answer is beta times its log-probability, after `alpha`.
        """
        from zoo.backends.base import Stat

        if self.loss in {"ipo", "simpo"}:
            logprob_B = mean_logprobs(xp, stats, batch)
        else:
            logprob_B = xp.sum(stats[Stat.LOGPROBS] * batch["mask"], axis=-1)
        chosen_P, rejected_P = sides(self._reward(xp, logprob_B))
        loss_P = self._of_pairs(xp, chosen_P - rejected_P)
        loss = xp.sum(pair_weights(batch) * loss_P) / batch[WINDOW_UNITS]
        if self.cpo_alpha:
            loss = loss + self.cpo_alpha * better_nll(xp, stats, batch)
        return loss, reward_metrics(xp, self.beta * chosen_P, self.beta * rejected_P, batch)

    def _reward(self, xp: "ArrayNamespace", logprob_B: "Array") -> "Array":
        """Returns (1 - p^-alpha) / alpha, AlphaPO's reward without beta."""
        if not self.alpha:
            return logprob_B
        exponent_B = -self.alpha * logprob_B
        return (
            -xp.expm1(xp.minimum(exponent_B, MOST_EXPONENT * xp.ones_like(logprob_B))) / self.alpha
        )

    def _of_pairs(self, xp: "ArrayNamespace", gap_P: "Array") -> "Array":
        if self.loss == "hinge":
            return relu(xp, 1 - self.beta * gap_P)
        if self.loss == "ipo":
            return (gap_P - 1 / (2 * self.beta)) ** 2
        ahead = self.gamma if self.loss == "simpo" else 0.0
        return smoothed_loss(xp, self.beta * gap_P - ahead, self.label_smoothing)
