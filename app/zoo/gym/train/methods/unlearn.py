"""Unlearning: answers to forget become unlikely, and answers to retain do not.

It learns from rows with `forget` true or false (or a rating, or pairs: what is bad is forgotten).
The loss is NPO, for which the model that training starts from is the reference, or SimNPO. An
evaluation reports the negative log-likelihood of both kinds of held-out answers. Left out: plain
texts, and a proof that nothing can bring the answers back: they become unlikely, that is all.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number
from zoo.gym.data.units import RATING, Unit, rows_of
from zoo.gym.errors import InputError
from zoo.gym.objectives.unlearning import (
    WINDOW_FORGET,
    WINDOW_FORGET_TOKENS,
    WINDOW_RETAIN_TOKENS,
    UnlearningLoss,
)
from zoo.gym.train.method import Method
from zoo.gym.train.methods.preference import Referenced

if TYPE_CHECKING:
    from zoo.backends.base import Objective

BETAS = {"npo": 0.1, "simnpo": 2.5}
"""The usual `pref_beta` of each loss; SimNPO's is for a mean over tokens."""


class UnlearnConfig(TrainConfig, frozen=True):
    """The settings of unlearning."""

    rate_share = 0.1

    stage: Literal["unlearn"] = Field(
        default="unlearn", description="unlearn makes answers unlikely and retains others"
    )
    unlearn_loss: Literal["npo", "simnpo"] = Field(
        default="npo", description="the loss; simnpo has no reference"
    )
    pref_beta: Number | None = Field(
        default=None,
        gt=0,
        description="how fast the loss of an answer to forget falls; none: 0.1 for npo, 2.5 for"
        " simnpo",
    )
    simnpo_gamma: Number = Field(
        default=0.0, ge=0, description="the margin of simnpo: with more, unlikely answers count"
    )
    retain_alpha: Number = Field(
        default=1.0, ge=0, description="the weight of the answers to retain"
    )

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key: also that of the other loss."""
        if self.unlearn_loss == "simnpo":
            return super().unread()
        text = f"has no effect with unlearn_loss {self.unlearn_loss}: expected simnpo"
        return super().unread() | {"simnpo_gamma": text}


class Unlearning(Referenced):
    """Unlearning by NPO or SimNPO."""

    config = UnlearnConfig
    reads = frozenset({"rated"})
    decides, better = "loss", "lower"
    watch = ("forget_nll", "retain_nll")

    def prepare(self) -> None:
        """Scores the reference of NPO.

        Raises:
            InputError: there is no answer to forget.
        """
        if not any(map(_forgets, self.units)):
            raise InputError(
                "dataset: expected rows to forget, with 'forget': true, got only rows to retain",
                hint="without rows to forget, stage sft learns the others",
                code="train.nothing_to_forget",
            )
        if self._settings.unlearn_loss == "npo":
            super().prepare()

    def notes(self) -> tuple[str, ...]:
        """Returns a warning if there is nothing to retain."""
        if all(map(_forgets, self.units)):
            text = "no rows to retain ('forget': false): the model may forget other things, too"
            return (*Method.notes(self), text)
        return Method.notes(self)

    @property
    def _settings(self) -> UnlearnConfig:
        return cast("UnlearnConfig", self.plan.config)

    @property
    def objective(self) -> "Objective":
        """The loss of `unlearn_loss`."""
        config = self._settings
        return UnlearningLoss(
            loss=config.unlearn_loss,
            beta=config.pref_beta or BETAS[config.unlearn_loss],
            gamma=config.simnpo_gamma,
            retain=config.retain_alpha,
        )

    def constants(self, units: Sequence[Unit]) -> Mapping[str, float]:
        """Returns the numbers of answers to forget, and of the tokens of both kinds."""
        forget = [unit for unit in units if _forgets(unit)]
        tokens = sum(unit.learned_tokens for unit in forget)
        retained = sum(unit.learned_tokens for unit in units) - tokens
        return {
            WINDOW_FORGET: float(len(forget)),
            WINDOW_FORGET_TOKENS: float(tokens),
            WINDOW_RETAIN_TOKENS: float(retained),
        }


def _forgets(unit: Unit) -> bool:
    """Returns whether a unit is an answer to forget."""
    (row,) = rows_of([unit])
    return float(row.extras[RATING]) < 0
