"""What a training method is: the window of each step, its objective, its evaluation, its state.

The loop calls a method for everything that differs between methods. A method that learns from rows
overrides little: its objective, and what it scores before the first step. One that generates its
own rows overrides the window.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

from zoo.gym.config.train import TrainConfig
from zoo.gym.data.batches import collate, first_fit, micro_batches
from zoo.gym.data.lazy import seen_of
from zoo.gym.data.records import LEARNED, Kind
from zoo.gym.errors import InputError
from zoo.gym.objectives.constants import WINDOW_FIRST_TOKENS, WINDOW_TOKENS, WINDOW_UNITS
from zoo.gym.train.accumulate import score_window
from zoo.gym.train.loading import load_spec
from zoo.gym.train.order import rows_of_step
from zoo.gym.train.plan import Choice, Facts, Plan, batch_tokens

if TYPE_CHECKING:
    from zoo.backends.base import Batch, LoadSpec, Objective, Policy, Scorer
    from zoo.gym.data.records import Record
    from zoo.gym.data.units import Unit


@dataclass(frozen=True)
class Window:
    """The data of one optimizer step.

    Attributes:
        batches: its micro-batches.
        learned_tokens: the number of learned tokens.
        metrics: what the method measured on the data, by name.
        notes: warnings to emit.
        learns: whether it must have a gradient; False if all sampled answers are equally good.
    """

    batches: "Sequence[Batch]"
    learned_tokens: int
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()
    learns: bool = True


@dataclass(frozen=True)
class Evaluation:
    """What a method measured on the held-out rows.

    Attributes:
        loss: nats per learned token, or the objective's own value; None if it is not measured.
        tokens: tokens that were scored or sampled.
        metrics: further numbers by name.
    """

    loss: float | None
    tokens: int
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])


class Method(ABC):
    """A training method, applied to one run.

    Args:
        policy: the model to train.
        plan: the complete settings of the run.
        units: the rows, pairs or groups to learn from.
        held_out: those that each evaluation scores; may be empty.
        folder: the run folder, for what the method stores outside the checkpoints.
    """

    config: ClassVar[type[TrainConfig]] = TrainConfig
    """The settings of a run with this method."""

    reads: ClassVar[frozenset[Kind]] = LEARNED
    """The kinds of rows that it can learn from."""

    decides: ClassVar[str] = "loss"
    """What the best step is chosen by: `loss`, or the name of a metric of the evaluation."""

    better: ClassVar[Literal["lower", "higher"]] = "lower"
    """Whether a lower or a higher value of it is better."""

    loss_unit: ClassVar[str] = ""
    """The unit of the loss, such as `nats per token`; empty if it has none."""

    watch: ClassVar[tuple[str, ...]] = ()
    """The metrics to display while it runs."""

    value_head: ClassVar[bool] = False
    """Whether the policy has a head that predicts a value before each token."""

    added_tokens: ClassVar[int] = 0
    """The tokens that it adds to each row, which a model with a limited context must leave free."""

    teacher: "Scorer | None" = None
    """The model whose distribution the objective compares with, if any; set by `prepare`."""

    generates: ClassVar[bool] = False
    """Whether it learns from answers that it samples, several to a prompt."""

    answers: ClassVar[bool] = True
    """Whether the result answers prompts; a reward model gives scores."""

    result: ClassVar[Literal["model", "delta"]] = "model"
    """What the policy writes at the end: a folder that peft or transformers loads, or a delta."""

    retained: "tuple[Unit, ...]" = ()
    """Rows that the model answered itself before training; each step has the share `retain`."""

    start: "Scorer | None" = None
    """The model before training, which retained rows are compared with."""

    def __init__(
        self,
        policy: "Policy",
        plan: Plan,
        units: "Sequence[Unit]",
        held_out: "Sequence[Unit]",
        folder: Path,
    ) -> None:
        self.policy, self.plan, self.folder = policy, plan, folder
        self.units, self.held_out = units, tuple(held_out)

    @property
    @abstractmethod
    def objective(self) -> "Objective":
        """What each step minimises."""

    @classmethod
    def choices(cls, config: TrainConfig, facts: Facts) -> Iterable[Choice]:
        """Returns the defaults that differ from those of all methods, each with its reason."""
        del config, facts
        return ()

    @classmethod
    def answer_tokens(cls, config: TrainConfig, cutoff_len: int) -> int:
        """Returns how many of `cutoff_len` tokens a prompt must leave free for an answer."""
        del config, cutoff_len
        return 1

    @classmethod
    def rows_per_unit(cls, config: TrainConfig) -> int:
        """Returns the number of rows that a unit becomes in a step, if the method samples them."""
        del config
        return 1

    @classmethod
    def keeps_reference(cls, config: TrainConfig) -> bool:
        """Returns whether the base model is scored in every step; full training keeps a copy."""
        del config
        return False

    @classmethod
    def reads_vocabulary(cls, config: TrainConfig) -> bool:
        """Returns whether the objective reads more than the log-probabilities of the tokens.

        Then a step needs memory for all tokens of the vocabulary.
        """
        del config
        return False

    @classmethod
    def width(cls, config: TrainConfig, unit: "Unit", cutoff_len: int) -> int:
        """Returns the tokens that a unit takes in a micro-batch of its own, padding included."""
        del config, cutoff_len
        return unit.width

    @classmethod
    def micro_batch_tokens(cls, config: TrainConfig, widest: int, parameters: int) -> int:
        """Returns the tokens of the largest micro-batch, if the widest unit has `widest`."""
        del parameters
        return widest * (config.per_device_train_batch_size or 1)

    @classmethod
    def load_spec(cls, config: TrainConfig) -> "LoadSpec":
        """Returns how the policy is loaded; a method may add groups of parameters, for example."""
        return replace(load_spec(config), value_head=cls.value_head)

    @classmethod
    def policy_of(cls, policy: "Policy", config: TrainConfig, folder: Path) -> "Policy":
        """Returns what is trained of a policy that was loaded; by default the policy itself.

        Args:
            policy: loaded as `load_spec` says.
            config: the settings.
            folder: the folder of the base.
        """
        del config, folder
        return policy

    @classmethod
    def check_models(cls, config: TrainConfig, folder: Path) -> None:
        """Checks that the base in `folder` and the other models of the settings go together.

        Raises:
            InputError: they do not.
        """
        del config, folder

    @classmethod
    def check_records(cls, config: TrainConfig, records: "Iterable[Record]") -> None:
        """Checks, before there is a run, that what the settings name fits some of the rows.

        Raises:
            InputError: it does not.
        """
        del config, records

    def prepare(self) -> None:  # noqa: B027 - most methods have nothing to prepare
        """Does what comes before the first step of this process, such as scoring a reference.

        The policy is still as it was loaded: a checkpoint is restored afterwards.
        """

    def notes(self) -> tuple[str, ...]:
        """Returns what the engine cannot share or pack, and which tensors it steps otherwise."""
        together = self.generates or any(len(unit.rows) > 1 for unit in seen_of(self.units))
        return self.policy.notes(sampling=self.generates, prefix=together)

    def window(self, step: int) -> Window:
        """Returns the data of a step: a function of the seed, the step and the method's state.

        Args:
            step: counted from 1.
        """
        config = self.plan.config
        units = rows_of_step(self.units, step, self.plan.rows_per_step, config.seed)
        size, packs = config.per_device_train_batch_size, self.packs(units)
        return make_window(units, max_units=size, packs=packs, constants=self.constants(units))

    def packs(self, units: "Sequence[Unit]") -> bool:
        """Returns whether batches of these units are computed without padding."""
        longest = max(unit.longest for unit in units)
        return bool(self.plan.config.packing) and self.policy.packs(longest)

    def constants(self, units: "Sequence[Unit]") -> Mapping[str, float]:
        """Returns constants of a window that the objective reads in addition to its counts."""
        del units
        return {}

    def evaluate(self) -> Evaluation:
        """Scores the policy on the held-out rows: the objective over all of them, as one window.

        Returns:
            The objective's value and its metrics.
        """
        limit = batch_tokens(self.policy.parameter_count())
        constants = self.constants(self.held_out)
        packs = self.packs(self.held_out)
        window = make_window(
            self.held_out, max_batch_tokens=limit, packs=packs, constants=constants
        )
        metrics = score_window(self.policy, self.objective, window.batches, self.teacher)
        return Evaluation(metrics.pop("loss"), window.learned_tokens, metrics)

    def close(self) -> None:  # noqa: B027 - most own nothing
        """Ends what the method owns, such as processes, at the end of a run."""

    def save(self, folder: Path) -> None:  # noqa: B027 - most have no state
        """Writes the method's own state into its own empty folder of a checkpoint."""

    def load(self, folder: Path) -> None:  # noqa: B027 - most have no state
        """Restores what `save` wrote, from the same folder."""

    def doubt(self, evaluation: Evaluation) -> str | None:
        """Returns a warning that an evaluation gives, or None."""
        del evaluation
        return None

    def score(self, evaluation: Evaluation) -> float:
        """Returns the number that the best step is chosen by.

        Raises:
            InputError: the evaluation lacks it.
        """
        if self.decides == "loss":
            assert evaluation.loss is not None
            return float(evaluation.loss)
        if self.decides not in evaluation.metrics:
            names = ", ".join(evaluation.metrics) or "none"
            raise InputError(
                f"stage {self.plan.config.stage}: evaluation: expected the metric {self.decides!r},"
                f" which chooses the best step, got {names}",
                code="train.missing_metric",
            )
        return float(evaluation.metrics[self.decides])

    def is_tied(self, evaluation: Evaluation) -> bool:
        """Returns whether a score of 0 means that nothing was ranked, neither right nor wrong."""
        del evaluation
        return False

    def improves(self, score: float, best: float | None) -> bool:
        """Returns whether a score is better than the best so far; NaN and infinities never are."""
        if not math.isfinite(score):
            return False
        if best is None or not math.isfinite(best):
            return True
        return score < best if self.better == "lower" else score > best


def make_window(
    units: "Sequence[Unit]",
    *,
    max_units: int | None = None,
    max_batch_tokens: int | None = None,
    packs: bool = False,
    constants: Mapping[str, float] = MappingProxyType({}),
) -> Window:
    """Splits units into micro-batches that carry the counts of the window and its constants.

    Args:
        units: the units of the window.
        max_units: the most units of a micro-batch.
        max_batch_tokens: the most tokens of a micro-batch, padding included.
        packs: micro-batches have no padding: they are filled up to the tokens that the largest
            ones would have with it.
        constants: further constants.

    Raises:
        ValueError: there are no units.
    """
    if not units:
        raise ValueError("window: expected at least one unit, got none")
    learned_tokens = sum(unit.learned_tokens for unit in units)
    counts = {
        WINDOW_TOKENS: float(learned_tokens),
        WINDOW_UNITS: float(len(units)),
        WINDOW_FIRST_TOKENS: float(sum(int(unit.rows[0].mask.sum()) for unit in units)),
    }
    filled = max_batch_tokens or (max_units or len(units)) * max(unit.width for unit in units)
    parts = (
        first_fit(units, max_tokens=filled)
        if packs
        else micro_batches(units, max_units=max_units, max_batch_tokens=max_batch_tokens)
    )
    return Window([collate(part, {**counts, **constants}) for part in parts], learned_tokens)
