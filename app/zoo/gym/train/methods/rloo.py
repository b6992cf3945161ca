"""RLOO: an answer is compared with the other answers to its prompt (arXiv:2402.14740).

`zoo.gym.train.online` has the way of a step. This file has what RLOO does with scores: the
divergence from the base model is subtracted from the reward, and the advantage of an answer is its
reward minus the mean of the others in its group. `zoo.gym.objectives.rloo` is the loss.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from zoo.gym.config.rollouts import RolloutConfig
from zoo.gym.config.train import Number
from zoo.gym.data.units import rows_of
from zoo.gym.objectives.advantages import leave_one_out, normalised
from zoo.gym.objectives.rloo import LeaveOneOutLoss
from zoo.gym.train.buffer import make_buffer
from zoo.gym.train.online import Online

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.gym.train.rollouts import Answer


class RlooConfig(RolloutConfig, frozen=True):
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
    epsilon: Number = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="the importance ratio is clipped below 1 - epsilon",
    )
    epsilon_high: Number | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description="the importance ratio is clipped above 1 + epsilon_high; none: as epsilon",
    )
    normalize_advantages: bool = Field(
        default=False,
        description="divide the advantages of a step by their standard deviation",
    )

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each setting that would have no effect."""
        return [*super().conflicts(), *self._idle()]

    def _idle(self) -> Iterator[tuple[str, str]]:
        if self.num_iterations == 1:
            why = "has no effect with num_iterations 1: the importance ratio is 1 in every step"
            yield from ((key, why) for key in ("epsilon", "epsilon_high") if key in self.changed)


class Rloo(Online[RlooConfig]):
    """REINFORCE with a leave-one-out baseline."""

    config = RlooConfig

    @property
    def objective(self) -> LeaveOneOutLoss:
        """The clipped loss of whole answers."""
        config = self.settings
        high = config.epsilon if config.epsilon_high is None else config.epsilon_high
        return LeaveOneOutLoss(config.epsilon, high)

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

        found_NG = leave_one_out(rewards_NG)
        if not self.settings.normalize_advantages:
            return found_NG
        return normalised(found_NG, ~np.isnan(rewards_NG))
