"""GRPO: the model answers prompts itself, and answers better than their group become likelier.

`zoo.gym.train.online` has the way of a step: sample a group of answers to each prompt, score them,
compare each score with its group, take a step. This file has what GRPO does with scores: the
advantage of an answer is how far its score is above the mean of its group (arXiv:2402.03300), and
`zoo.gym.objectives.grpo` is the loss, with its variants.
"""

from typing import TYPE_CHECKING, ClassVar, Literal, cast

from pydantic import Field

from zoo.gym.config.rollouts import GroupConfig
from zoo.gym.config.train import TrainConfig
from zoo.gym.objectives.advantages import group_advantages
from zoo.gym.objectives.grpo import GroupRelativeLoss
from zoo.gym.train.buffer import Buffer, select_tokens
from zoo.gym.train.method import Window
from zoo.gym.train.online import Online
from zoo.gym.train.plan import batch_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class GrpoConfig(GroupConfig, frozen=True):
    """The settings of GRPO."""

    stage: Literal["grpo"] = Field(
        default="grpo", description="grpo learns from the rewards of its own answers"
    )


class Grpo(Online[GroupConfig]):
    """Group-relative policy optimisation."""

    config: ClassVar[type[TrainConfig]] = GrpoConfig

    @classmethod
    def reads_vocabulary(cls, config: TrainConfig) -> bool:
        """Returns whether the entropy of the tokens is learned."""
        return cast("GroupConfig", config).entropy_coef != 0

    @property
    def objective(self) -> GroupRelativeLoss:
        """The clipped loss that the settings describe."""
        config = self.settings
        assert config.max_completion_length is not None
        return GroupRelativeLoss(
            loss_type=config.loss_type,
            level=config.importance_sampling_level,
            epsilon=config.epsilon,
            epsilon_high=config.upper_epsilon,
            delta=config.delta,
            beta=config.beta,
            bias_correction=config.use_bias_correction_kl,
            entropy_coef=config.entropy_coef,
            off_policy_threshold=config.off_policy_mask_threshold,
            max_completion_length=config.max_completion_length,
        )

    @property
    def learns_equal_groups(self) -> bool:
        """Whether a group without a spread of rewards has a gradient."""
        config = self.settings
        tokens_count = config.entropy_coef != 0 or config.top_entropy_quantile < 1
        return config.beta != 0 or tokens_count

    def step_window(self, buffer: Buffer) -> Window:
        """Returns the rows of a step; with `top_entropy_quantile`, a mask of tokens is added.

        The entropies are those of the policy at this step.
        """
        from zoo.backends.base import Stat

        share = self.settings.top_entropy_quantile
        if share < 1 and buffer.units:
            limit = batch_tokens(self.policy.parameter_count())
            entropies = buffer.scored(self.policy, Stat.ENTROPY, limit, self.policy.ranks)
            buffer = select_tokens(buffer, entropies, share)
        return super().step_window(buffer)

    def advantages(self, rewards_NG: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Returns the advantage of each answer, 0 for one without a reward."""
        return group_advantages(rewards_NG, self.settings.scale_rewards)
