"""PPO: a value head predicts the reward, and tokens better than predicted become likelier.

`zoo.gym.train.online` has the way of a step. This file has what PPO does with scores: each token is
rewarded for staying near the base model and the last one with the answer's score; advantages come
from the value head by GAE (arXiv:1707.06347, arXiv:1506.02438). `zoo.gym.objectives.ppo` is the
loss. The value head learns at the rate of the policy, and is not part of the result.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from zoo.gym.config.rollouts import RolloutConfig
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number, Whole
from zoo.gym.data.units import Example, rows_of
from zoo.gym.errors import InputError
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.objectives.grpo import ADVANTAGES, OLD_LOGPROBS
from zoo.gym.objectives.ppo import (
    OLD_VALUES,
    RETURNS,
    TOKEN_ADVANTAGES,
    ProximalLoss,
    generalised_advantages,
    token_rewards,
    whitened,
)
from zoo.gym.train.buffer import Buffer
from zoo.gym.train.method import Window
from zoo.gym.train.online import Online
from zoo.gym.train.order import permutation
from zoo.gym.train.plan import batch_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.gym.train.rollouts import Answer


class PpoConfig(RolloutConfig, frozen=True):
    """The settings of PPO."""

    stage: Literal["ppo"] = Field(
        default="ppo",
        description="ppo learns from the rewards of its own answers with a value head",
    )
    group_size: Whole = Field(
        default=1,
        ge=1,
        le=4096,
        description="answers sampled to each prompt",
    )
    num_iterations: Whole = Field(
        default=4,
        ge=1,
        le=1000,
        description="how often the same answers are learned",
    )
    num_mini_batches: Whole = Field(
        default=1,
        ge=1,
        le=1000,
        description="the parts that the answers are split into, each the data of a step; all of"
        " them are learned num_iterations times",
    )
    missing_eos_penalty: Number | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="subtracted from the reward of an answer that reached max_completion_length;"
        " none: nothing",
    )
    beta: Number = Field(
        default=0.05,
        ge=0,
        le=1e6,
        description="the weight of the divergence from the base model in the reward of each token;"
        " 0 needs no reference",
    )
    kl_estimator: Literal["k1", "k3"] = Field(
        default="k1",
        description="the estimate of the divergence: k1, the log-ratio, or k3, never negative",
    )
    epsilon: Number = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="the importance ratio is clipped to 1 +- epsilon; in a single step on the same"
        " answers it is always 1",
    )
    cliprange_value: Number = Field(
        default=0.2,
        gt=0,
        le=1e6,
        description="how far a value may move from the one before the first step on its answers",
    )
    vf_coef: Number = Field(
        default=0.1,
        gt=0,
        le=1e6,
        description="the weight of the value loss",
    )
    gamma: Number = Field(
        default=1.0,
        ge=0,
        le=1,
        description="the discount of each token",
    )
    lam: Number = Field(
        default=0.95,
        ge=0,
        le=1,
        description="the lambda of GAE: 0 trusts the value head, 1 the rewards",
    )
    whiten_rewards: bool = Field(
        default=False,
        description="divide the rewards of tokens by their standard deviation",
    )

    @property
    def steps_on_answers(self) -> int:
        """The number of steps that learn from the same answers, or a part of them."""
        return self.num_iterations * self.num_mini_batches

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key: also those of a reward without its part."""
        unread = super().unread()
        if self.beta == 0:
            unread["kl_estimator"] = "has no effect with beta 0: there is no divergence"
        if self.mask_truncated_completions:
            text = "has no effect with mask_truncated_completions: those answers are not learned"
            unread["missing_eos_penalty"] = text
        return unread


class Ppo(Online[PpoConfig]):
    """Proximal policy optimisation."""

    config = PpoConfig
    value_head = True
    watch = ("reward", "value_loss", "completion_length")
    compares_groups = False

    @classmethod
    def reads_vocabulary(cls, config: TrainConfig) -> bool:
        """Returns True: values are computed with the log-probabilities, chunk by chunk."""
        del config
        return True

    @property
    def objective(self) -> ProximalLoss:
        """The clipped losses of policy and value."""
        config = self.settings
        return ProximalLoss(config.epsilon, config.cliprange_value, config.vf_coef)

    def prepare(self) -> None:
        """Loads the tokenizer and the reward.

        Raises:
            InputError: there are more mini-batches than prompts in a step.
        """
        parts, prompts = self.settings.num_mini_batches, self.plan.rows_per_step
        if parts > prompts:
            raise InputError(
                f"num_mini_batches: expected at most the {prompts} prompts per step, got {parts}",
                hint="raise per_device_train_batch_size or gradient_accumulation_steps",
                code="train.too_many_batches",
            )
        super().prepare()

    def adjusted(
        self, answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """Returns the rewards, less the penalty for answers that did not end."""
        import numpy as np

        penalty = self.settings.missing_eos_penalty or 0.0
        cut_NG = np.array([[answer.truncated for answer in group] for group in answers])
        return rewards_NG - penalty * cut_NG

    def step_window(self, buffer: Buffer) -> Window:
        """Returns the rows of a step: all, or one of the parts in an order of this pass."""
        config = self.settings
        parts = min(config.num_mini_batches, len(buffer.units))
        if parts > 1:
            index = (self.step - 1) % config.num_mini_batches
            first_step = self.step - index  # of this pass over the answers
            order = permutation(len(buffer.units), config.seed, first_step)
            buffer = buffer.part(order[index % parts :: parts].tolist())
        return super().step_window(buffer)

    def advantages(self, rewards_NG: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Returns the rewards themselves: the value head is compared with them token by token."""
        import numpy as np

        return np.nan_to_num(rewards_NG)

    def scored(self, buffer: Buffer) -> Buffer:
        """Adds old log-probabilities and values, the advantage of each token, and its return."""
        from zoo.backends.base import Stat

        config = self.settings
        buffer = buffer.with_extras(OLD_LOGPROBS, self.logprobs(buffer))
        if config.beta:
            buffer = buffer.with_extras(REF_LOGPROBS, self.reference_logprobs(buffer))
        limit = batch_tokens(self.policy.parameter_count())
        values = buffer.scored(self.policy, Stat.VALUES, limit, self.policy.ranks)
        rows = rows_of(buffer.units)
        rewards = [_token_rewards(row, config) for row in rows]
        if config.whiten_rewards:
            rewards = whitened(rewards, shift=False)
        advantages = [
            generalised_advantages(reward, value[row.mask], config.gamma, config.lam)
            for reward, value, row in zip(rewards, values, rows, strict=True)
        ]
        returns = [
            advantage + value[row.mask]
            for advantage, value, row in zip(advantages, values, rows, strict=True)
        ]
        buffer = buffer.with_extras(OLD_VALUES, values)
        buffer = buffer.with_extras(RETURNS, _placed(returns, rows))
        return buffer.with_extras(TOKEN_ADVANTAGES, _placed(whitened(advantages), rows))


def _token_rewards(row: Example, config: PpoConfig) -> "NDArray[np.float64]":
    old = row.extras[OLD_LOGPROBS][row.mask]
    ref = row.extras[REF_LOGPROBS][row.mask] if config.beta else old
    score = float(row.extras[ADVANTAGES])
    return token_rewards(score, old, ref, config.beta, config.kl_estimator)


def _placed(values: "list[NDArray[Any]]", rows: tuple[Example, ...]) -> "list[NDArray[Any]]":
    """Returns the values of learned tokens at their places, float32 [T], zeros elsewhere."""
    import numpy as np

    arrays: list[NDArray[Any]] = []
    for value, row in zip(values, rows, strict=True):
        placed = np.zeros(len(row.ids), dtype=np.float32)
        placed[row.mask] = value
        arrays.append(placed)
    return arrays
