"""Direct preference optimisation: better answers become likelier than worse ones.

The model that training starts from is the reference: it is scored once, before step 1. The loss is
that of DPO or another of its family (`zoo.gym.objectives.dpo`). An evaluation reports the share of
held-out pairs whose better answer gained more likelihood than the worse one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.stages import METHODS
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Listed, Number
from zoo.gym.data.units import Unit, weight_of
from zoo.gym.errors import InputError
from zoo.gym.objectives.dpo import DIVERGING, LOSSES, SMOOTHED, DpoLoss
from zoo.gym.train.methods.preference import Referenced, with_logprob_weights

if TYPE_CHECKING:
    from zoo.backends.base import Objective


NEEDS_NOISE = {
    "exo_pair": "which is infinite without it",
    "robust": "which is sigmoid without it",
}
"""The losses that expect wrong labels, with the reason."""

READ_BY_LOSSES = {
    "label_smoothing": SMOOTHED,
    "f_divergence_type": DIVERGING,
    "ld_alpha": frozenset(LOSSES) - {"sft"},
    "pref_beta": frozenset(LOSSES) - {"sft"},
    "discopop_tau": frozenset({"discopop"}),
}
"""The losses that read a setting."""


class DpoConfig(RetainingConfig, frozen=True):
    """The settings of direct preference optimisation."""

    rate_share = 0.1

    stage: Literal["dpo"] = Field(
        default="dpo", description="dpo prefers the better of two answers"
    )
    pref_beta: Number = Field(
        default=0.1,
        gt=0,
        description="how close the model stays to the reference; lower lets it move further",
    )
    pref_loss: Listed = Field(
        default="sigmoid",
        description=f"the loss: {', '.join(LOSSES)}; several separated by commas are added",
    )
    pref_loss_weights: Listed | None = Field(
        default=None,
        description="the weight of each loss, numbers separated by commas; none: 1 each",
    )
    label_smoothing: Number = Field(
        default=0.0,
        ge=0,
        lt=0.5,
        description="the share of pairs that are assumed to be labelled the wrong way round;"
        f" {' and '.join(NEEDS_NOISE)} need it",
    )
    f_divergence_type: Literal["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"] = (
        Field(
            default="reverse_kl",
            description="how the distance from the reference is measured",
        )
    )
    f_alpha_divergence_coef: Number = Field(
        default=0.5,
        description="the order of alpha_divergence",
    )
    ld_alpha: Number | None = Field(
        default=None,
        ge=0,
        le=1,
        description="the weight of tokens of an answer beyond the length of the other; none: 1",
    )
    use_weighting: bool = Field(
        default=False,
        description="weigh pairs by how likely the model itself is to give their answers (WPO)",
    )
    discopop_tau: Number = Field(
        default=0.05,
        gt=0,
        description="the temperature of the loss discopop",
    )

    @property
    def losses(self) -> tuple[str, ...]:
        """The names of the losses."""
        return _parts(self.pref_loss)

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key: also those that none of the losses reads."""
        names, unread = set(self.losses), super().unread()
        for key, readers in READ_BY_LOSSES.items():
            if names <= set(LOSSES) and not readers & names:
                text = f"has no effect with pref_loss {self.pref_loss}"
                unread[key] = f"{text}: expected one of {', '.join(_sorted(readers))}"
        if self.f_divergence_type != "alpha_divergence":
            text = f"has no effect with f_divergence_type {self.f_divergence_type}"
            unread["f_alpha_divergence_coef"] = f"{text}: expected alpha_divergence"
        return unread

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns what is no loss, and values that contradict each other."""
        names = self.losses
        unknown = [name for name in names if name not in LOSSES] or ([] if names else [""])
        if unknown and unknown[0] in METHODS:
            return [("pref_loss", f"{unknown[0]} is a method: expected stage {unknown[0]}")]
        if unknown:
            return [("pref_loss", f"expected {', '.join(LOSSES)}, got '{unknown[0]}'")]
        faults = [*_faults_of_weights(self)]
        if self.f_divergence_type == "alpha_divergence" and self.f_alpha_divergence_coef == 1:
            text = "expected another number than 1, which is f_divergence_type reverse_kl"
            faults.append(("f_alpha_divergence_coef", text))
        if not self.label_smoothing and (noisy := [loss for loss in names if loss in NEEDS_NOISE]):
            why = NEEDS_NOISE[noisy[0]]
            text = f"expected more than 0 for pref_loss {noisy[0]}, {why}, got 0"
            faults.append(("label_smoothing", text))
        if self.use_weighting and (single := {"aot", "aot_unpaired", "sft"} & set(names)):
            text = f"cannot weigh the pairs of pref_loss {min(single)}, which are not single ones"
            faults.append(("use_weighting", text))
        return faults

    def terms(self) -> tuple[tuple[str, float], ...]:
        """Returns each loss with its weight."""
        weights = _parts(self.pref_loss_weights or ",".join("1" for _ in self.losses))
        return tuple(zip(self.losses, map(float, weights), strict=True))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _sorted(names: frozenset[str]) -> list[str]:
    """Returns the names in the order of the table."""
    return [name for name in LOSSES if name in names]


def _faults_of_weights(config: DpoConfig) -> list[tuple[str, str]]:
    """Returns what is wrong with `pref_loss_weights`: too many, too few, or no numbers."""
    if config.pref_loss_weights is None:
        return []
    weights, losses = _parts(config.pref_loss_weights), config.losses
    try:
        good = all(0 < float(weight) < float("inf") for weight in weights)
    except ValueError:
        good = False
    if good and len(weights) == len(losses):
        return []
    expected = "one number above 0 for each loss"
    text = f"expected {expected} ({', '.join(losses)}), got '{config.pref_loss_weights}'"
    return [("pref_loss_weights", text)]


def _refuse_weights(units: Sequence[Unit], loss: str) -> None:
    """Refuses weighted pairs: once sorted, better and worse answers are of different pairs."""
    for unit in units:
        if (weight := weight_of(unit.rows[0])) != 1:
            raise InputError(
                f"{unit.rows[0].source}: weight: expected 1 with pref_loss {loss}, which sorts the "
                f"answers of all pairs, got {weight:g}",
                hint="another pref_loss, or data without weights",
                code="train.row_weight",
            )


class DirectPreference(Referenced):
    """Direct preference optimisation and the losses of its family."""

    config = DpoConfig

    @classmethod
    def reads_vocabulary(cls, config: TrainConfig) -> bool:
        """Returns whether the likelihood of all tokens weighs the pairs."""
        return cast("DpoConfig", config).use_weighting

    def prepare(self) -> None:
        """Scores the reference, and weighs tokens if `ld_alpha` is given.

        Raises:
            InputError: a pair has a weight, and a loss sorts the pairs.
        """
        if self.objective.coupled:
            _refuse_weights((*self.units, *self.held_out), self._settings.pref_loss)
        super().prepare()
        ld_alpha = self._settings.ld_alpha
        if ld_alpha is not None:
            self.units = with_logprob_weights(self.units, ld_alpha)
            self.held_out = with_logprob_weights(self.held_out, ld_alpha)

    @property
    def _settings(self) -> DpoConfig:
        return cast("DpoConfig", self.plan.config)

    @property
    def objective(self) -> "Objective":
        """The weighted sum of the losses of `pref_loss`."""
        config = self._settings
        return DpoLoss(
            beta=config.pref_beta,
            terms=config.terms(),
            label_smoothing=config.label_smoothing,
            f_divergence=config.f_divergence_type,
            f_alpha=config.f_alpha_divergence_coef,
            use_weighting=config.use_weighting,
            discopop_tau=config.discopop_tau,
        )
