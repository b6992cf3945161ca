"""Policy-gradient losses of sampled answers with a clipped ratio: GRPO and its relatives.

Legend: B answers, T positions. `advantages` [B] belong to answers; `old_logprobs` and
`ref_logprobs` [B, T] to tokens. All sums are divided by constants of the window, so they do not
depend on its micro-batches; `bnpo`, whose definition divides by each micro-batch, is thus `dapo`.

Sources: GRPO arXiv:2402.03300, DAPO arXiv:2503.14476, Dr. GRPO arXiv:2503.20783, GSPO
arXiv:2507.18071, CISPO arXiv:2506.13585, SAPO arXiv:2511.20347, two-sided clipping
arXiv:2505.07291, tokens of high entropy arXiv:2506.01939, off-policy sequences arXiv:2512.02556.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zoo.gym.config.rollouts import LossType
from zoo.gym.objectives.constants import REF_LOGPROBS, WINDOW_ROWS, WINDOW_SELECTED, WINDOW_TOKENS
from zoo.gym.objectives.weights import token_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat

ADVANTAGES, OLD_LOGPROBS = "advantages", "old_logprobs"

SELECTED = "selected"
"""The name of a mask [B, T] among the extras: the tokens whose advantage is learned."""

VESPO_GAMMA = ((2.0, 3.0), (3.0, 2.0))
"""VESPO's k and lambda, for answers better and worse than their group."""

LARGEST_LOG_RATIO = 20.0
SMALLEST_LOG_WEIGHT = -18.420680743952367  # log(1e-8)


@dataclass(frozen=True)
class GroupRelativeLoss:
    """The loss of a policy-gradient step on sampled answers.

    Attributes:
        loss_type: how tokens are weighted and averaged. `dapo`, `bnpo`, `cispo` and `vespo` divide
            by the tokens of the window; `grpo` and `sapo` average the tokens of each answer, then
            the answers; `dr_grpo` divides by answers times `max_completion_length`; `luspo` sums
            the tokens of each answer and averages the answers. `cispo` caps the ratio, as a
            constant, at 1 + epsilon_high; `sapo` has a sigmoid gate, and `vespo` a gamma weight, in
            place of the clip.
        level: whether the ratio of policy to old policy is that of a token, or the geometric mean
            over an answer (GSPO, eq. 7).
        epsilon: the ratio's lower bound is 1 - epsilon.
        epsilon_high: its upper bound is 1 + epsilon_high.
        delta: a cap on the unclipped ratio, which bounds the loss of bad answers; None for none.
        beta: the weight of the divergence from the reference.
        bias_correction: multiply the divergence by the ratio, so that its gradient is unbiased.
        entropy_coef: the weight of the mean entropy, which is maximised.
        off_policy_threshold: answers with a negative advantage whose mean of log(old / new) exceeds
            it are not learned; None for no limit.
        max_completion_length: the maximum number of tokens of an answer, for `dr_grpo`.
        sharpness: how sharply the gate of `sapo` closes, for answers better and worse than their
            group.
    """

    loss_type: LossType = "dapo"
    level: Literal["token", "sequence"] = "token"
    epsilon: float = 0.2
    epsilon_high: float = 0.2
    delta: float | None = None
    beta: float = 0.0
    bias_correction: bool = True
    entropy_coef: float = 0.0
    off_policy_threshold: float | None = None
    max_completion_length: int = 512
    sharpness: tuple[float, float] = (1.0, 1.05)

    coupled = False

    @property
    def needs(self) -> "frozenset[Stat]":
        """Log-probabilities, and entropies if they count."""
        from zoo.backends.base import Stat

        return frozenset({Stat.LOGPROBS, *((Stat.ENTROPY,) if self.entropy_coef else ())})

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss, and as metrics sums over tokens divided by the window's tokens.

        Without `old_logprobs` in the batch, the old policy is this one: the ratio is 1, and its
        gradient is that of the log-probability.
        """
        from zoo.backends.base import Stat

        logprobs_BT, mask_BT, tokens = stats[Stat.LOGPROBS], batch["mask"], batch[WINDOW_TOKENS]
        advantages_B1 = batch[ADVANTAGES][:, None]
        old_BT = batch.get(OLD_LOGPROBS)
        old_BT = xp.stop_gradient(logprobs_BT) if old_BT is None else old_BT
        log_ratio_BT = (logprobs_BT - old_BT) * mask_BT
        ratio = xp.exp(self._log_weight(xp, log_ratio_BT, mask_BT))  # [B, T], or [B, 1] by sequence

        if self.loss_type == "vespo":
            weight = _gamma_weight(xp, log_ratio_BT, advantages_B1)
            loss_BT = -weight * advantages_B1 * logprobs_BT
        else:
            loss_BT = self._surrogate(xp, ratio, advantages_B1, logprobs_BT)
        selected_BT = mask_BT * batch[SELECTED] if SELECTED in batch else mask_BT
        kept_BT = selected_BT
        if self.off_policy_threshold is not None:
            kept_BT = kept_BT * self._near(xp, log_ratio_BT, mask_BT, advantages_B1)
        loss_BT = loss_BT * kept_BT

        metrics: dict[str, Array] = {}
        if OLD_LOGPROBS in batch:
            metrics = self._clip_shares(xp, ratio, advantages_B1, mask_BT, tokens)
        if self.beta:
            kl_BT = divergence(xp, logprobs_BT, batch[REF_LOGPROBS]) * mask_BT
            metrics["kl"] = xp.sum(kl_BT) / tokens
            loss_BT = loss_BT + self.beta * (kl_BT * ratio if self.bias_correction else kl_BT)
        weights_B1 = token_weights(batch)
        loss = self._averaged(xp, weights_B1 * loss_BT, mask_BT, batch)
        if self.entropy_coef:
            entropy_BT = stats[Stat.ENTROPY]
            metrics["entropy"] = xp.sum(entropy_BT * mask_BT) / tokens
            bonus = xp.sum(weights_B1 * entropy_BT * selected_BT) / batch.get(
                WINDOW_SELECTED, tokens
            )
            loss = loss - self.entropy_coef * bonus
        return loss, metrics

    def _log_weight(self, xp: "ArrayNamespace", log_ratio_BT: "Array", mask_BT: "Array") -> "Array":
        if self.level == "token":
            return log_ratio_BT
        return (xp.sum(log_ratio_BT, axis=-1) / _at_least_one(xp, mask_BT))[:, None]

    def _surrogate(
        self, xp: "ArrayNamespace", ratio: "Array", advantages_B1: "Array", logprobs_BT: "Array"
    ) -> "Array":
        """Returns the loss of each token before averaging."""
        if self.loss_type == "cispo":
            capped = xp.stop_gradient(xp.clip(ratio, 0.0, 1 + self.epsilon_high))
            return -capped * advantages_B1 * logprobs_BT
        if self.loss_type == "sapo":
            sharpness_B1 = _by_sign(xp, advantages_B1 > 0, advantages_B1, *self.sharpness)
            gate = xp.sigmoid(sharpness_B1 * (ratio - 1)) * 4 / sharpness_B1
            return -gate * advantages_B1
        clipped = xp.clip(ratio, 1 - self.epsilon, 1 + self.epsilon_high)
        if self.delta is not None:
            ratio = xp.clip(ratio, 0.0, self.delta)
        return -xp.minimum(ratio * advantages_B1, clipped * advantages_B1)

    def _near(
        self, xp: "ArrayNamespace", log_ratio_BT: "Array", mask_BT: "Array", advantages_B1: "Array"
    ) -> "Array":
        """Returns 1 for answers to learn, [B, 1], and 0 for bad ones that the policy has left."""
        apart_B = -xp.sum(xp.stop_gradient(log_ratio_BT), axis=-1) / _at_least_one(xp, mask_BT)
        keep_B1 = (advantages_B1 >= 0) | (apart_B[:, None] <= self.off_policy_threshold)
        return xp.where(keep_B1, xp.ones_like(advantages_B1), xp.zeros_like(advantages_B1))

    def _averaged(
        self,
        xp: "ArrayNamespace",
        loss_BT: "Array",
        mask_BT: "Array",
        batch: "Mapping[str, Array]",
    ) -> "Array":
        if self.loss_type in {"grpo", "sapo"}:
            means_B = xp.sum(loss_BT, axis=-1) / _at_least_one(xp, mask_BT)
            return xp.sum(means_B) / batch[WINDOW_ROWS]
        if self.loss_type == "dr_grpo":
            return xp.sum(loss_BT) / (batch[WINDOW_ROWS] * self.max_completion_length)
        if self.loss_type == "luspo":
            return xp.sum(loss_BT) / batch[WINDOW_ROWS]
        return xp.sum(loss_BT) / batch[WINDOW_TOKENS]

    def _clip_shares(
        self,
        xp: "ArrayNamespace",
        ratio: "Array",
        advantages_B1: "Array",
        mask_BT: "Array",
        tokens: float,
    ) -> "dict[str, Array]":
        """Returns the shares of tokens beyond the bounds, where the clip stops their gradient."""
        zeros_BT = xp.zeros_like(mask_BT)
        low = (ratio < 1 - self.epsilon) & (advantages_B1 < 0)
        high = (ratio > 1 + self.epsilon_high) & (advantages_B1 > 0)
        return {
            "clip_low": xp.sum(xp.where(low, mask_BT, zeros_BT)) / tokens,
            "clip_high": xp.sum(xp.where(high, mask_BT, zeros_BT)) / tokens,
        }


def divergence(xp: "ArrayNamespace", logprobs: "Array", ref_logprobs: "Array") -> "Array":
    """Returns the k3 estimate of KL(policy, reference) per token, never negative (GRPO, eq. 4)."""
    gap = ref_logprobs - logprobs
    return xp.exp(gap) - gap - 1


def _gamma_weight(xp: "ArrayNamespace", log_ratio_BT: "Array", advantages_B1: "Array") -> "Array":
    """Returns VESPO's constant weight of each answer, [B, 1]: e^k(1-w) w^k in the answer's ratio w.

    The log-ratio of an answer is the sum over its tokens.
    """
    bounded_BT = xp.clip(xp.stop_gradient(log_ratio_BT), -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    total_B1 = xp.sum(bounded_BT, axis=-1)[:, None]
    log_weight_B1 = xp.clip(total_B1, SMALLEST_LOG_WEIGHT, LARGEST_LOG_RATIO)
    (k_good, lambda_good), (k_bad, lambda_bad) = VESPO_GAMMA
    good = advantages_B1 >= 0
    k_B1 = _by_sign(xp, good, advantages_B1, k_good, k_bad)
    lambda_B1 = _by_sign(xp, good, advantages_B1, lambda_good, lambda_bad)
    return xp.exp(lambda_B1 + k_B1 * log_weight_B1 - lambda_B1 * xp.exp(log_weight_B1))


def _by_sign(
    xp: "ArrayNamespace", good: "Array", like: "Array", if_good: float, if_bad: float
) -> "Array":
    ones = xp.ones_like(like)
    return xp.where(good, if_good * ones, if_bad * ones)


def _at_least_one(xp: "ArrayNamespace", mask_BT: "Array") -> "Array":
    """Returns the learned tokens of each row, [B], and 1 for a row without any."""
    count_B = xp.sum(mask_BT, axis=-1)
    return xp.maximum(count_B, xp.ones_like(count_B))
