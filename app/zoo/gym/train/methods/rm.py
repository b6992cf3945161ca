"""A reward model: scores answers, learned from pairs of a better and a worse one.

The score is a new layer in place of the model's output layer; it reads the last hidden state of a
chat with its answer. The loss and its source are in `zoo.gym.objectives.reward_model`. An
evaluation reports the share of held-out pairs whose better answer has the higher score. The result
is always a whole model, a sequence classification model with one label: an adapter is merged.

A score belongs to the last token of a row that is not the padding token, which is where
transformers reads it. In our statistics a token's value is that of the hidden state before it, so
each row ends with one more token, whose id plays no part.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import Number
from zoo.gym.data import load_tokenizer
from zoo.gym.data.units import Example, Unit
from zoo.gym.objectives.reward_model import RewardLoss
from zoo.gym.train.method import Window, make_window
from zoo.gym.train.methods.preference import Preference
from zoo.gym.train.order import rows_of_step

if TYPE_CHECKING:
    from zoo.backends.base import LoadSpec, Objective


class RewardModelConfig(TrainConfig, frozen=True):
    """The settings of a reward model."""

    rate_share = 0.5

    stage: Literal["rm"] = Field(
        default="rm", description="rm is a reward model that scores answers, from pairs of them"
    )
    center_rewards_coefficient: Number = Field(
        default=0.0,
        ge=0,
        description="how strongly the scores of a pair are drawn towards a sum of 0",
    )

    def unread(self) -> dict[str, str]:
        """Returns why nothing reads a setting, by key: also of answers, which it does not give."""
        text = "has no effect with stage rm, whose model answers nothing: expected another stage"
        return super().unread() | {"retention": text}


class RewardModelling(Preference):
    """Training of a reward model."""

    config = RewardModelConfig
    reads = frozenset({"pair", "margin"})
    has_likelihoods = False
    value_head = True
    added_tokens = 1
    answers = False

    @property
    def objective(self) -> "Objective":
        """The Bradley-Terry loss, with the margins of the pairs."""
        return RewardLoss(cast("RewardModelConfig", self.plan.config).center_rewards_coefficient)

    @classmethod
    def load_spec(cls, config: TrainConfig) -> "LoadSpec":
        """Returns how the policy is loaded: its value head becomes the score."""
        return replace(super().load_spec(config), reward_model=True)

    @classmethod
    def width(cls, config: TrainConfig, unit: Unit, cutoff_len: int) -> int:
        """Returns the tokens that a pair takes, with the one that is added to each row."""
        del config, cutoff_len
        return unit.width + len(unit.rows)

    def prepare(self) -> None:
        """Adds the token at the end of held-out rows."""
        from zoo.models import resolve

        base = resolve(self.plan.config.model_name_or_path, offline=True).folder
        self._padding = load_tokenizer(base).pad_token_id
        self.held_out = self._ended(self.held_out)

    def window(self, step: int) -> Window:
        """Returns the pairs of a step; it reports the tokens of both answers and their prompt."""
        config = self.plan.config
        units = rows_of_step(self.units, step, self.plan.rows_per_step, config.seed)
        size = config.per_device_train_batch_size
        window = make_window(self._ended(units), max_units=size, packs=self.packs(units))
        return replace(window, learned_tokens=sum(unit.tokens for unit in units))

    def _ended(self, units: Sequence[Unit]) -> tuple[Unit, ...]:
        return tuple(Unit(tuple(ended(row, self._padding) for row in unit.rows)) for unit in units)


def ended(row: Example, padding: int | None) -> Example:
    """Returns a row with one learned token, after its last one that is not the padding token."""
    import numpy as np

    real = np.flatnonzero(row.ids != padding) if padding is not None else np.arange(len(row.ids))
    length = int(real[-1]) + 1 if len(real) else len(row.ids)
    ids = np.append(row.ids[:length], 0)
    return replace(row, ids=ids, mask=np.arange(len(ids)) == length)
