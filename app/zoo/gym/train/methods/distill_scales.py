"""Distillation of a delta's scales: base plus delta learns to predict what the fine-tune predicts.

The codes of a dense delta stay; only scales and plain differences are trained, by the forward KL
of each learned token over the whole vocabulary (arXiv:2402.10193, section 3, compares logits by
their squared difference and trains embeddings and norms as well). The rows are some that the
fine-tune learned from; the last of them are not learned from and choose the best step, so rows
that nothing has seen measure the result. `zoo-gym delta create --distill` starts it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from zoo.gym.config.values import path_text
from zoo.gym.data.records import Kind
from zoo.gym.engine import open_engine
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import given_path
from zoo.gym.train.methods.distill import Distillation, DistillConfig
from zoo.gym.train.plan import Choice, Facts, Plan
from zoo.gym.train.run_folder.env import stored_device
from zoo.models.folder import SMALL_PARAMETERS, count_parameters

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.config.train import TrainConfig
    from zoo.gym.data.units import Unit

STEPS, TOKENS_PER_STEP = 60, 512
RATE = 0.05
"""A share: a scale moves by at most 5 % of what it was in a step; measured in docs/log.md."""

EVALUATED_SHARE, MOST_EVALUATED = 0.1, 64
EVALUATIONS = 6


class DistillScalesConfig(DistillConfig, frozen=True):
    """The settings of the distillation of scales."""

    stage: Literal["distill_scales"] = Field(  # type: ignore[assignment]
        default="distill_scales",
        description="distill_scales trains the scales of a dense delta to predict what the"
        " fine-tune predicts",
    )
    finetuning_type: Literal["full"] = Field(
        default="full", description="the gradient of all weights gives that of the scales"
    )
    delta: Annotated[str, BeforeValidator(path_text)] = Field(
        min_length=1, description="the dense delta whose scales are trained"
    )

    @property
    def other_files(self) -> dict[str, str]:
        """The files besides data and models: those of all methods, and the delta."""
        return super().other_files | {"delta": self.delta}

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each setting that is wrong or conflicts with others."""
        faults = list(super().conflicts())
        if self.num_processes > 1:
            faults.append(("num_processes", "expected 1: one process has the gradient of a scale"))
        if self.optim != "adamw":
            faults.append(("optim", f"expected adamw, which steps scales, got {self.optim}"))
        if self.weight_decay:
            faults.append(("weight_decay", "expected 0: scales do not decay"))
        return faults


class DistillScales(Distillation):
    """Trains the scales of a delta."""

    config = DistillScalesConfig
    answers: ClassVar[bool] = False
    result: ClassVar[Literal["model", "delta"]] = "delta"
    loss_unit = "nats per token"
    watch = ("kl",)
    reads: ClassVar[frozenset[Kind]] = Distillation.reads

    def __init__(
        self,
        policy: "Policy",
        plan: Plan,
        units: "Sequence[Unit]",
        held_out: "Sequence[Unit]",
        folder: Path,
    ) -> None:
        del held_out  # they measure the delta afterwards
        count = min(MOST_EVALUATED, int(len(units) * EVALUATED_SHARE))
        learned, evaluated = units[: len(units) - count], units[len(units) - count :]
        super().__init__(policy, plan, learned, evaluated, folder)

    @classmethod
    def choices(cls, config: "TrainConfig", facts: Facts) -> Iterable[Choice]:
        """Returns the defaults that differ from those of all methods, each with its reason."""
        steps = config.max_steps or STEPS
        rows = max(1, min(facts.rows, round(TOKENS_PER_STEP * facts.rows / facts.tokens)))
        yield Choice("max_steps", STEPS, "scales are few: more steps gain little")
        yield Choice("learning_rate", RATE, "the share of itself that a scale moves by in a step")
        yield Choice(
            "per_device_train_batch_size", rows, f"about {TOKENS_PER_STEP} tokens in a step"
        )
        yield Choice("gradient_accumulation_steps", 1, "a step's rows are computed at once")
        yield Choice("eval_steps", max(1, steps // EVALUATIONS), f"{EVALUATIONS} evaluations")
        yield Choice("early_stopping_steps", 2, "evaluations without a lower divergence")

    @classmethod
    def policy_of(cls, policy: "Policy", config: "TrainConfig", folder: Path) -> "Policy":
        """Returns base plus delta, of which the scales are trained.

        Raises:
            InputError: the delta is of another base, or has no scales that can be trained.
        """
        from zoo.gym.delta.file.reader import load_delta
        from zoo.gym.delta.reading.identity import verify_base
        from zoo.gym.delta.reading.weights import open_weights
        from zoo.gym.engine import engine_for
        from zoo.gym.train.scale_policy import ScalePolicy

        delta = load_delta(given_path(cast("DistillScalesConfig", config).delta))
        weights = open_weights(folder)
        verify_base(delta, weights)
        names = engine_for(folder).parameter_names(folder)
        return ScalePolicy(policy, delta, weights, names)

    def prepare(self) -> None:
        """Loads the fine-tune next to the policy."""
        from zoo.models import resolve

        folder = resolve(self._settings.teacher_model, offline=True).folder
        from zoo.backends.base import LoadSpec

        engine = open_engine(stored_device(self.folder / "env.json"))
        large = count_parameters(folder) >= SMALL_PARAMETERS
        try:  # its layers are read from the file for each pass: two models are in memory otherwise
            spec = LoadSpec(stream_layers=large and engine.name == "cpu")
            self.teacher = engine.load(folder, spec)
        except (InputError, NotAvailableError):
            self.teacher = engine.load(folder)
        if not self.units:
            raise InputError("dataset: expected rows to learn from, got none", code="train.no_rows")
