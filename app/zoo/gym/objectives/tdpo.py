"""Token-level direct preference optimisation: DPO with the divergence of each answer's tokens.

TDPO (arXiv:2404.11999) adds to DPO's margin how far the policy has moved from the reference along
each answer: k, the sum over its tokens of KL(reference || policy) of the next-token distributions.
With u = beta * (r(chosen) - r(rejected)), r the log of policy over reference, the losses are

- TDPO1: -log sigmoid(u - beta * (k(rejected) - k(chosen)))
- TDPO2: -log sigmoid(u - alpha * beta * (k(rejected) - stop_gradient(k(chosen))))

The divergences are of whole distributions, so the reference must be a scorer.

Legend: B rows, T positions, P pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zoo.gym.objectives.constants import REF_LOGPROBS, WINDOW_UNITS
from zoo.gym.objectives.pairs import reward_metrics, sides
from zoo.gym.objectives.weights import pair_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


@dataclass(frozen=True)
class TdpoLoss:
    """The mean over pairs.

    Attributes:
        beta: how close the policy stays to the reference; lower lets it move further.
        loss: `tdpo1` or `tdpo2`.
        alpha: the weight of the divergences in `tdpo2`.
    """

    beta: float = 0.1
    loss: Literal["tdpo1", "tdpo2"] = "tdpo2"
    alpha: float = 0.5
    coupled = False

    @property
    def needs(self) -> "frozenset[Stat]":
        """Log-probabilities, and the divergence of each token from the reference."""
        from zoo.backends.base import Stat

        return frozenset({Stat.LOGPROBS, Stat.FORWARD_KL})

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss, the metrics of `reward_metrics`, and the mean divergences.

        The reward of an answer is beta * r; `chosen_kl` and `rejected_kl` are the means of k.
        """
        from zoo.backends.base import Stat

        mask_BT, pairs = batch["mask"], batch[WINDOW_UNITS]
        gain_B = xp.sum((stats[Stat.LOGPROBS] - batch[REF_LOGPROBS]) * mask_BT, axis=-1)
        chosen_P, rejected_P = sides(self.beta * gain_B)
        chosen_kl_P, rejected_kl_P = sides(xp.sum(stats[Stat.FORWARD_KL] * mask_BT, axis=-1))
        if self.loss == "tdpo1":
            moved_P = self.beta * (rejected_kl_P - chosen_kl_P)
        else:
            moved_P = self.alpha * self.beta * (rejected_kl_P - xp.stop_gradient(chosen_kl_P))
        margin_P = chosen_P - rejected_P - moved_P
        metrics = {
            **reward_metrics(xp, chosen_P, rejected_P, batch),
            "chosen_kl": xp.sum(chosen_kl_P) / pairs,
            "rejected_kl": xp.sum(rejected_kl_P) / pairs,
        }
        return -xp.sum(pair_weights(batch) * xp.log_sigmoid(margin_P)) / pairs, metrics
