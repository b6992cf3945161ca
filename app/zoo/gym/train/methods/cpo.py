"""Contrastive preference optimisation and SimPO: better answers become likelier, without reference.

CPO also learns the better answers, by `cpo_alpha`. SimPO compares mean log-probabilities per token
and wants the better answer ahead by a margin; with `alphapo_alpha` it is AlphaPO. An evaluation
reports the share of held-out pairs whose better answer has the higher reward.
"""

from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.values import Number
from zoo.gym.objectives.cpo import CpoLoss
from zoo.gym.train.methods.preference import Preference

if TYPE_CHECKING:
    from zoo.backends.base import Objective


class _ContrastiveConfig(RetainingConfig, frozen=True):
    """The settings that CPO and SimPO share."""

    pref_beta: Number = Field(default=0.1, gt=0, description="the scale of the rewards")
    label_smoothing: Number = Field(
        default=0.0,
        ge=0,
        lt=0.5,
        description="the share of pairs that are assumed to be labelled the wrong way round",
    )


class CpoConfig(_ContrastiveConfig, frozen=True):
    """The settings of contrastive preference optimisation."""

    rate_share = 0.5

    stage: Literal["cpo"] = Field(
        default="cpo", description="cpo is dpo without a reference, and learns the better answer"
    )
    cpo_loss: Literal["sigmoid", "hinge", "ipo"] = Field(
        default="sigmoid", description="the loss of a pair; ipo compares means per token"
    )
    cpo_alpha: Number = Field(
        default=1.0, ge=0, description="the weight of the likelihood of the better answers"
    )

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key: also that of another loss."""
        if self.cpo_loss == "sigmoid":
            return super().unread()
        text = f"has no effect with cpo_loss {self.cpo_loss}: expected sigmoid"
        return super().unread() | {"label_smoothing": text}


class SimpoConfig(_ContrastiveConfig, frozen=True):
    """The settings of SimPO and AlphaPO."""

    rate_share = 0.1

    stage: Literal["simpo"] = Field(
        default="simpo", description="simpo compares mean log-probabilities, without a reference"
    )
    cpo_alpha: Number = Field(
        default=0.0, ge=0, description="the weight of the likelihood of the better answers"
    )
    simpo_gamma: Number = Field(
        default=0.5, ge=0, description="how far the better answer's reward is to be ahead"
    )
    alphapo_alpha: Number = Field(
        default=0.0, description="the shape of AlphaPO's reward; 0 is SimPO's"
    )


class ContrastivePreference(Preference):
    """Contrastive preference optimisation."""

    config = CpoConfig

    @property
    def objective(self) -> "Objective":
        """The loss of `cpo_loss` and the likelihood of better answers."""
        config = cast("CpoConfig", self.plan.config)
        return CpoLoss(
            beta=config.pref_beta,
            loss=config.cpo_loss,
            cpo_alpha=config.cpo_alpha,
            label_smoothing=config.label_smoothing,
        )


class SimplePreference(Preference):
    """SimPO and AlphaPO."""

    config = SimpoConfig

    @property
    def objective(self) -> "Objective":
        """The loss of SimPO, and the likelihood of better answers if it has a weight."""
        config = cast("SimpoConfig", self.plan.config)
        return CpoLoss(
            beta=config.pref_beta,
            loss="simpo",
            cpo_alpha=config.cpo_alpha,
            gamma=config.simpo_gamma,
            label_smoothing=config.label_smoothing,
            alpha=config.alphapo_alpha,
        )
