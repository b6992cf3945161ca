"""A reward model: a score for each answer, learned from pairs.

The Bradley-Terry loss of Ouyang et al. (arXiv:2203.02155, eq. 1) for two answers, -log
sigmoid(score(chosen) - score(rejected)). With margins (Llama 2, arXiv:2307.09288, eq. 2) the better
answer's score is to be ahead by a number that the pair gives. The loss does not change if both
scores of a pair rise alike; `center` times the square of their sum keeps them near 0
(arXiv:2312.09244).

A row's score is the value of its one learned position, after the answer's last token.

Left out: several answers to rank at once.

Legend: B rows, T positions, P pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.data.units import MARGIN
from zoo.gym.objectives.constants import WINDOW_UNITS
from zoo.gym.objectives.pairs import reward_metrics, sides
from zoo.gym.objectives.weights import pair_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


@dataclass(frozen=True)
class RewardLoss:
    """The mean over pairs.

    Attributes:
        center: the weight of the squared sum of a pair's scores.
    """

    center: float = 0.0
    coupled = False

    @property
    def needs(self) -> "frozenset[Stat]":
        """Only values."""
        from zoo.backends.base import Stat

        return frozenset({Stat.VALUES})

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss and the metrics of `reward_metrics`; the rewards are the scores."""
        from zoo.backends.base import Stat

        chosen_P, rejected_P = sides(xp.sum(stats[Stat.VALUES] * batch["mask"], axis=-1))
        ahead_P = chosen_P - rejected_P
        if MARGIN in batch:
            ahead_P = ahead_P - sides(batch[MARGIN])[0]
        loss_P = -xp.log_sigmoid(ahead_P)
        if self.center:
            loss_P = loss_P + self.center * (chosen_P + rejected_P) ** 2
        metrics = reward_metrics(xp, chosen_P, rejected_P, batch)
        return xp.sum(pair_weights(batch) * loss_P) / batch[WINDOW_UNITS], metrics
