"""GSPO: GRPO with the importance ratio of whole answers (arXiv:2507.18071).

The bounds of the ratio are those of the paper, and the tokens of each answer are averaged first.
"""

from typing import Literal

from pydantic import Field

from zoo.gym.config.rollouts import LEVELS, LOSS_TYPES, GroupConfig, LossType
from zoo.gym.config.values import Number
from zoo.gym.train.methods.grpo import Grpo


class GspoConfig(GroupConfig, frozen=True):
    """The settings of GSPO."""

    stage: Literal["gspo"] = Field(
        default="gspo",
        description="gspo is grpo with the importance ratio of whole answers; with num_iterations 1"
        " it equals grpo with loss_type grpo",
    )
    importance_sampling_level: Literal["token", "sequence"] = Field(
        default="sequence",
        description=LEVELS,
    )
    loss_type: LossType = Field(
        default="grpo",
        description=LOSS_TYPES,
    )
    epsilon: Number = Field(
        default=3e-4,
        ge=0,
        lt=1,
        description="the importance ratio is clipped below 1 - epsilon; with num_iterations 1 it is"
        " always 1",
    )
    epsilon_high: Number | None = Field(
        default=4e-4,
        ge=0,
        le=1e6,
        description="the importance ratio is clipped above 1 + epsilon_high; with num_iterations 1"
        " it is always 1; none: as epsilon",
    )


class Gspo(Grpo):
    """Group sequence policy optimisation."""

    config = GspoConfig
