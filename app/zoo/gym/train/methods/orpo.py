"""Odds-ratio preference optimisation: learns the better answer and avoids the worse, in one stage.

There is no reference model, so training may start from a model that has not seen such answers. An
evaluation reports the share of held-out pairs whose better answer has the higher mean
log-probability per token.
"""

from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.values import Number
from zoo.gym.objectives.orpo import OrpoLoss
from zoo.gym.train.methods.preference import Preference

if TYPE_CHECKING:
    from zoo.backends.base import Objective


class OrpoConfig(RetainingConfig, frozen=True):
    """The settings of odds-ratio preference optimisation."""

    rate_share = 0.5

    stage: Literal["orpo"] = Field(
        default="orpo", description="orpo learns the better of two answers and avoids the other"
    )
    pref_beta: Number = Field(default=0.1, gt=0, description="the weight of the odds ratio")


class OddsRatioPreference(Preference):
    """Odds-ratio preference optimisation."""

    config = OrpoConfig

    @property
    def objective(self) -> "Objective":
        """The likelihood of better answers and the odds ratio."""
        return OrpoLoss(beta=cast("OrpoConfig", self.plan.config).pref_beta)
