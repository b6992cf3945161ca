"""Kahneman-Tversky optimisation: good answers become likelier and bad ones less likely, one by one.

It learns from answers with a rating, and from pairs, of which each answer is a row of its own. The
model that training starts from is the reference. Before each step the divergence from it is
estimated on prompts with the answer of another row, which is fixed for the run. An evaluation
reports the share of held-out answers on the right side of that estimate.

Departures from the paper: the estimate is made without dropout, and the answer of another row is
the next one of the data (good answers first), not of the batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.config.values import Number
from zoo.gym.data.units import NO_EXTRAS, RATING, Example, Unit, alone, rows_of
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.objectives.kto import WINDOW_BAD, WINDOW_GOOD, WINDOW_KL, KtoLoss, divergence
from zoo.gym.train.methods.preference import Referenced
from zoo.gym.train.reference import score_rows, with_reference

if TYPE_CHECKING:
    from zoo.backends.base import Objective


class KtoConfig(RetainingConfig, frozen=True):
    """The settings of Kahneman-Tversky optimisation."""

    rate_share = 0.1

    stage: Literal["kto"] = Field(
        default="kto", description="kto learns answers that are rated good or bad"
    )
    pref_beta: Number = Field(
        default=0.1,
        gt=0,
        description="how close the model stays to the reference; lower lets it move further",
    )
    kto_loss: Literal["kto", "apo_zero_unpaired"] = Field(
        default="kto", description="apo_zero_unpaired does not estimate the divergence"
    )
    kto_chosen_weight: Number = Field(default=1.0, gt=0, description="the weight of good answers")
    kto_rejected_weight: Number = Field(default=1.0, gt=0, description="the weight of bad answers")


class RatedAnswers(Referenced):
    """Kahneman-Tversky optimisation."""

    config = KtoConfig
    reads = frozenset({"rated"})

    def prepare(self) -> None:
        """Scores the reference on all answers, and on the mismatched ones."""
        super().prepare()
        self._mismatched: dict[int, Unit] = {}
        if self._settings.kto_loss != "kto":
            return
        for name, units in (("", self.units), ("-held-out", self.held_out)):
            if units:
                file = self.folder / f"reference-mismatched{name}.safetensors"
                scored = with_reference(self.policy, mismatched(units), file)
                self._mismatched |= {
                    id(unit): other for unit, other in zip(units, scored, strict=True)
                }

    @property
    def _settings(self) -> KtoConfig:
        return cast("KtoConfig", self.plan.config)

    @property
    def objective(self) -> "Objective":
        """The loss of `kto_loss`."""
        config = self._settings
        return KtoLoss(
            beta=config.pref_beta,
            loss=config.kto_loss,
            good_weight=config.kto_chosen_weight,
            bad_weight=config.kto_rejected_weight,
        )

    def constants(self, units: Sequence[Unit]) -> Mapping[str, float]:
        """Returns the divergence from the reference, and the numbers of good and bad answers."""
        good = sum(float(row.extras[RATING]) > 0 for row in rows_of(units))
        mismatched = [self._mismatched[id(unit)] for unit in units] if self._mismatched else []
        return {
            WINDOW_KL: divergence(self._gains(mismatched)) if mismatched else 0.0,
            WINDOW_GOOD: float(good),
            WINDOW_BAD: float(len(units) - good),
        }

    def _gains(self, units: Sequence[Unit]) -> list[float]:
        """Returns log of policy over reference of each row's answer."""
        scored = zip(score_rows(self.policy, units), rows_of(units), strict=True)
        return [float((new - row.extras[REF_LOGPROBS]).sum(dtype=float)) for new, row in scored]


def mismatched(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Returns each row's prompt with the answer of the next row that has another prompt.

    After the last row comes the first; if all prompts are equal, it is the next row. None is longer
    than the longest of the rows: a model may not take more tokens.
    """
    rows = rows_of(units)
    longest = max(len(row.ids) for row in rows)
    prompts = [row.ids[: int(row.mask.argmax())].tobytes() for row in rows]
    pairs = zip(rows, _next_different(prompts), strict=True)
    return alone(_joined(row, rows[other], longest) for row, other in pairs)


def _next_different(values: Sequence[bytes]) -> list[int]:
    """Returns for each place the next one with another value, cyclically; else the next one."""
    count = len(values)
    following: list[int | None] = [None] * count
    for index in [*range(count)][::-1] * 2:  # the second time for what follows the end
        second = (index + 1) % count
        following[index] = second if values[second] != values[index] else following[second]
    return [(index + 1) % count if at is None else at for index, at in enumerate(following)]


def _joined(row: Example, other: Example, longest: int) -> Example:
    import numpy as np

    start, begin = int(row.mask.argmax()), int(other.mask.argmax())
    ids = np.concatenate([row.ids[:start], other.ids[begin:]])[:longest]
    mask = np.concatenate([row.mask[:start], other.mask[begin:]])[:longest]
    return replace(row, ids=ids, mask=mask, extras=NO_EXTRAS)
