"""Odds-ratio preference optimisation: pairs, without a reference model.

ORPO (arXiv:2403.07691, eq. 6 and 7) learns the better answer as supervised fine-tuning does, and
adds beta * -log sigmoid(log odds(chosen) - log odds(rejected)), where odds(y) = p / (1 - p) of the
geometric mean p of the answer's token probabilities; beta is the paper's lambda.

Left out: learning the prompt, which TRL's trainer does and the paper does not.

Departure from the paper: a mean probability is at most 1 - 1e-6, so that its odds are finite.

Legend: B rows, T positions, P pairs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.objectives.constants import WINDOW_UNITS
from zoo.gym.objectives.logprob_loss import LogprobLoss
from zoo.gym.objectives.pairs import better_nll, mean_logprobs, reward_metrics, sides
from zoo.gym.objectives.weights import pair_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat

LEAST = -1e-6
"""The highest mean log-probability whose odds are computed."""


@dataclass(frozen=True)
class OrpoLoss(LogprobLoss):
    """The likelihood of better answers and the odds ratio.

    Attributes:
        beta: the weight of the odds ratio.
    """

    beta: float = 0.1

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss and the metrics of `reward_metrics`.

        The reward of an answer is beta times its mean log-probability per token.
        """
        mean_B = mean_logprobs(xp, stats, batch)
        chosen_P, rejected_P = sides(mean_B)
        chosen_odds_P, rejected_odds_P = sides(log_odds(xp, mean_B))
        ratio_P = xp.log_sigmoid(chosen_odds_P - rejected_odds_P)
        ratio = xp.sum(pair_weights(batch) * ratio_P)
        loss = better_nll(xp, stats, batch) - self.beta * ratio / batch[WINDOW_UNITS]
        return loss, reward_metrics(xp, self.beta * chosen_P, self.beta * rejected_P, batch)


def log_odds(xp: "ArrayNamespace", logprob: "Array") -> "Array":
    """Returns log(p / (1 - p)) for log-probabilities, accurate near 0 and 1."""
    x = xp.minimum(logprob, LEAST * xp.ones_like(logprob))
    half = -math.log(2) * xp.ones_like(x)
    likely = x > half
    # each branch sees only arguments for which it is accurate: `where` differentiates both
    near_one = xp.log(-xp.expm1(xp.where(likely, x, half)))
    near_zero = xp.log1p(-xp.exp(xp.where(likely, half, x)))
    return x - xp.where(likely, near_one, near_zero)
