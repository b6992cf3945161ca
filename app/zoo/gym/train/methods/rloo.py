"""RLOO: an answer is compared with the other answers to its prompt (arXiv:2402.14740).

`zoo.gym.train.online` has the way of a step. This file has what RLOO does with scores: the
divergence from the base model is subtracted from the reward, and the advantage of an answer is its
reward minus the mean of the others in its group. `zoo.gym.objectives.rloo` is the loss.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from zoo.gym.config.rollouts import ClippedConfig
from zoo.gym.config.values import Listed, Number
from zoo.gym.data.units import rows_of
from zoo.gym.objectives.advantages import leave_one_out, normalised
from zoo.gym.objectives.rloo import LeaveOneOutLoss
from zoo.gym.train.buffer import make_buffer
from zoo.gym.train.online import Online

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.gym.train.rollouts import Answer


class RlooConfig(ClippedConfig, frozen=True):
    """The settings of RLOO."""

    stage: Literal["rloo"] = Field(
        default="rloo", description="rloo compares each of its own answers with the others"
    )
    beta: Number = Field(
        default=0.05,
        ge=0,
        le=1e6,
        description="the weight of the divergence from the base model, which is subtracted from the"
        " reward; 0 needs no reference",
    )
    normalize_advantages: bool = Field(
        default=False,
        description="divide the advantages of a step by their standard deviation",
    )

    reward_clip_range: Listed | None = Field(
        default=None,
        description="the lowest and the highest reward that count, separated by a comma; others are"
        " moved to the nearer one; none: all count as they are",
    )

    @property
    def reward_bounds(self) -> tuple[float, float] | None:
        """The numbers of `reward_clip_range`; None if there is none, or they are not two numbers.

        The first is less than the second.
        """
        try:
            low, high = map(float, (self.reward_clip_range or "").split(","))
        except ValueError:
            return None
        return (low, high) if -math.inf < low < high < math.inf else None

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each setting that is wrong."""
        if self.reward_clip_range is None or self.reward_bounds:
            return super().conflicts()
        text = f"expected two rising numbers, such as '-1,1', got '{self.reward_clip_range}'"
        return [*super().conflicts(), ("reward_clip_range", text)]


class Rloo(Online[RlooConfig]):
    """REINFORCE with a leave-one-out baseline."""

    config = RlooConfig

    @property
    def objective(self) -> LeaveOneOutLoss:
        """The clipped loss of whole answers."""
        return LeaveOneOutLoss(self.settings.epsilon, self.settings.upper_epsilon)

    def adjusted(
        self, answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """Returns the rewards within `reward_clip_range`."""
        del answers
        bounds = self.settings.reward_bounds
        return rewards_NG if bounds is None else rewards_NG.clip(*bounds)

    def penalised(
        self, answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        """Returns the rewards minus the divergence of each answer, summed over its tokens."""
        import numpy as np

        if self.settings.beta == 0:
            return rewards_NG
        nothing = np.zeros(rewards_NG.shape)
        buffer = make_buffer(answers, nothing, np.zeros(len(answers), np.bool_))
        pairs = zip(
            self.logprobs(buffer),
            self.reference_logprobs(buffer),
            rows_of(buffer.units),
            strict=True,
        )
        apart = [float((new - ref)[row.mask].sum(dtype=np.float64)) for new, ref, row in pairs]
        lowered = rewards_NG.copy()
        lowered[~np.isnan(rewards_NG)] -= self.settings.beta * np.array(apart)
        return lowered

    def advantages(self, rewards_NG: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Returns each reward minus the mean of the others, 0 for an answer without a reward."""
        import numpy as np

        advantages_NG = leave_one_out(rewards_NG)
        if not self.settings.normalize_advantages:
            return advantages_NG
        return normalised(advantages_NG, ~np.isnan(rewards_NG))
