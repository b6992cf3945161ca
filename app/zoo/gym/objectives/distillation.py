"""Distillation: the distribution of each learned token becomes that of a teacher.

For each token the divergence of the whole vocabulary is summed, in nats: of the forward KL
sum_v t_v * log(t_v / p_v), which the student p is to cover the teacher t with (arXiv:1503.02531,
section 2, at temperature 1), or of the reverse KL sum_v p_v * log(p_v / t_v), which lets it ignore
what is unlikely for it (arXiv:2306.08543, here on given answers, not on sampled ones).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.weights import token_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


@dataclass(frozen=True)
class DistillationLoss:
    """The mean divergence over the window's learned tokens.

    Attributes:
        divergence: `forward_kl` or `reverse_kl`.
        alpha: the weight of the negative log-likelihood of the tokens, which is added.
    """

    divergence: Literal["forward_kl", "reverse_kl"] = "forward_kl"
    alpha: float = 0.0
    coupled = False
    linear = True

    @property
    def needs(self) -> "frozenset[Stat]":
        """The divergence, and log-probabilities."""
        from zoo.backends.base import Stat

        return frozenset({self._divergence, Stat.LOGPROBS})

    @property
    def _divergence(self) -> "Stat":
        from zoo.backends.base import Stat

        return Stat.FORWARD_KL if self.divergence == "forward_kl" else Stat.REVERSE_KL

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns `kl + alpha * nll`, and both as metrics, in nats per token."""
        from zoo.backends.base import Stat

        tokens, mask_BT = batch[WINDOW_TOKENS], batch["mask"]
        kl_BT = stats[self._divergence] * mask_BT
        nll_BT = -stats[Stat.LOGPROBS] * mask_BT
        kl, nll = (xp.sum(token_weights(batch) * each) / tokens for each in (kl_BT, nll_BT))
        metrics = {"kl": xp.sum(kl_BT) / tokens, "nll": xp.sum(nll_BT) / tokens}
        return kl + self.alpha * nll, metrics
