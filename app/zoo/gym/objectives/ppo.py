"""PPO with a value head: the clipped losses of policy and value, and advantages by GAE.

Legend: B answers, T positions. Position t belongs to the token at t: its value is that of the state
before it. TRL's removed trainer also learns the value after the last token; here an answer ends
with its last token.

Sources: PPO arXiv:1707.06347, eq. 7 and 9; GAE arXiv:1506.02438, eq. 16.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.grpo import OLD_LOGPROBS
from zoo.gym.objectives.weights import token_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat

TOKEN_ADVANTAGES, RETURNS, OLD_VALUES = "token_advantages", "returns", "old_values"

LEAST_VARIANCE = 1e-8


@dataclass(frozen=True)
class ProximalLoss:
    """The clipped policy loss plus the clipped value loss, averaged over tokens.

    Attributes:
        epsilon: the ratio is clipped to 1 - epsilon .. 1 + epsilon.
        value_epsilon: a value is clipped to its old one +- value_epsilon.
        value_coef: the weight of the value loss.
    """

    epsilon: float = 0.2
    value_epsilon: float = 0.2
    value_coef: float = 0.1

    coupled = False

    @property
    def needs(self) -> "frozenset[Stat]":
        """Log-probabilities and values."""
        from zoo.backends.base import Stat

        return frozenset({Stat.LOGPROBS, Stat.VALUES})

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss, the value loss, and the shares of clipped ratios and values."""
        from zoo.backends.base import Stat

        mask_BT, tokens = batch["mask"], batch[WINDOW_TOKENS]
        weights_BT = token_weights(batch) * mask_BT
        ratio_BT = xp.exp((stats[Stat.LOGPROBS] - batch[OLD_LOGPROBS]) * mask_BT)
        gain_BT = ratio_BT * batch[TOKEN_ADVANTAGES]
        bounded_BT = xp.clip(ratio_BT, 1 - self.epsilon, 1 + self.epsilon) * batch[TOKEN_ADVANTAGES]
        policy_loss = -xp.sum(xp.minimum(gain_BT, bounded_BT) * weights_BT) / tokens

        values_BT, old_BT = stats[Stat.VALUES], batch[OLD_VALUES]
        near_BT = old_BT + xp.clip(values_BT - old_BT, -self.value_epsilon, self.value_epsilon)
        error_BT = (values_BT - batch[RETURNS]) * (values_BT - batch[RETURNS])
        bounded_error_BT = (near_BT - batch[RETURNS]) * (near_BT - batch[RETURNS])
        worst_BT = xp.maximum(error_BT, bounded_error_BT)
        value_loss = 0.5 * xp.sum(worst_BT * weights_BT) / tokens

        zeros_BT = xp.zeros_like(mask_BT)
        metrics = {
            "value_loss": value_loss,
            "clipped": xp.sum(xp.where(bounded_BT < gain_BT, mask_BT, zeros_BT)) / tokens,
            "values_clipped": xp.sum(xp.where(bounded_error_BT > error_BT, mask_BT, zeros_BT))
            / tokens,
        }
        return policy_loss + self.value_coef * value_loss, metrics


def token_rewards(
    score: float,
    old_logprobs_T: "NDArray[Any]",
    ref_logprobs_T: "NDArray[Any]",
    beta: float,
    estimator: str = "k1",
) -> "NDArray[np.float64]":
    """Returns the reward of each token of an answer: its score at the end, divergence everywhere.

    Args:
        score: the reward of the answer.
        old_logprobs_T: of the answer's tokens, by the policy that sampled them.
        ref_logprobs_T: by the reference.
        beta: the weight of the divergence.
        estimator: `k1`, the log-ratio, or `k3`, which is never negative.
    """
    import numpy as np

    gap_T = np.asarray(ref_logprobs_T, np.float64) - np.asarray(old_logprobs_T, np.float64)
    rewards_T: NDArray[np.float64] = -beta * (
        -gap_T if estimator == "k1" else np.expm1(gap_T) - gap_T
    )
    rewards_T[-1] += score
    return rewards_T


def generalised_advantages(
    rewards_T: "NDArray[np.float64]", values_T: "NDArray[Any]", gamma: float, lam: float
) -> "NDArray[np.float64]":
    """Returns the advantage of each token of an answer, float64 [T]; the value after the end is 0.

    Args:
        rewards_T: the reward of each token.
        values_T: the value before each token.
        gamma: the discount of a token.
        lam: 0 trusts the values, 1 the rewards.
    """
    import numpy as np

    advantages_T = np.zeros(len(rewards_T))
    following = next_value = 0.0
    for t in reversed(range(len(rewards_T))):
        surprise = rewards_T[t] + gamma * next_value - values_T[t]
        following = surprise + gamma * lam * following
        advantages_T[t], next_value = following, float(values_T[t])
    return advantages_T


def whitened(
    rows: "Sequence[NDArray[np.float64]]", *, shift: bool = True
) -> "list[NDArray[np.float64]]":
    """Returns rows divided by the standard deviation of all their values (Bessel's correction).

    Args:
        rows: values of the tokens of each answer.
        shift: also subtract the mean.
    """
    import numpy as np

    flat = np.concatenate(rows)
    mean = flat.mean()
    scale = 1 / np.sqrt(flat.var(ddof=1) + LEAST_VARIANCE) if flat.size > 1 else 1.0
    return [(row - mean) * scale + (0.0 if shift else mean) for row in rows]
