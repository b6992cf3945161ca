"""Token-level direct preference optimisation: DPO with the divergence of each answer's tokens.

The reference's log-probabilities are scored once, before step 1; its distributions, which are too
large to store, come from the reference itself at each step: the model without its adapter, or in
full training a second model in memory. An evaluation reports the share of held-out pairs whose
better answer gained more likelihood than the worse one.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number
from zoo.gym.objectives.tdpo import TdpoLoss
from zoo.gym.train.methods.preference import Referenced

if TYPE_CHECKING:
    from pathlib import Path

    from zoo.backends.base import Objective, Policy
    from zoo.gym.data.units import Unit
    from zoo.gym.train.plan import Plan


class TdpoConfig(RetainingConfig, frozen=True):
    """The settings of token-level direct preference optimisation."""

    rate_share = 0.1

    stage: Literal["tdpo"] = Field(
        default="tdpo", description="tdpo is dpo with the divergence of each token"
    )
    pref_beta: Number = Field(
        default=0.1,
        gt=0,
        description="how close the model stays to the reference; lower lets it move further",
    )
    tdpo_loss: Literal["tdpo1", "tdpo2"] = Field(
        default="tdpo2",
        description="the loss; tdpo1 also rewards the divergence of better answers",
    )
    tdpo_alpha: Number = Field(
        default=0.5, gt=0, description="the weight of the divergence of the tokens in tdpo2"
    )

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key: also that of the other loss."""
        if self.tdpo_loss == "tdpo2":
            return super().unread()
        text = "has no effect with tdpo_loss tdpo1: expected tdpo2"
        return super().unread() | {"tdpo_alpha": text}


class TokenPreference(Referenced):
    """Token-level direct preference optimisation."""

    config = TdpoConfig

    def __init__(
        self,
        policy: "Policy",
        plan: "Plan",
        units: "Sequence[Unit]",
        held_out: "Sequence[Unit]",
        folder: "Path",
    ) -> None:
        super().__init__(policy, plan, units, held_out, folder)
        self._open = ExitStack()

    @classmethod
    def keeps_reference(cls, config: TrainConfig) -> bool:
        """Returns True: each step compares its probabilities with those of the reference."""
        del config
        return True

    @classmethod
    def reads_vocabulary(cls, config: TrainConfig) -> bool:
        """Returns True: a divergence is a sum over the vocabulary."""
        del config
        return True

    @property
    def objective(self) -> "Objective":
        """The loss of `tdpo_loss`."""
        config = cast("TdpoConfig", self.plan.config)
        return TdpoLoss(beta=config.pref_beta, loss=config.tdpo_loss, alpha=config.tdpo_alpha)

    def prepare(self) -> None:
        """Scores the reference on all answers, and keeps it as the teacher."""
        super().prepare()
        self.teacher = self._open.enter_context(self.policy.reference())

    def close(self) -> None:
        """Ends the use of the reference."""
        self._open.close()
