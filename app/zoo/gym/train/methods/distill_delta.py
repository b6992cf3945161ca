"""Distillation of a delta: base plus delta learns to predict what the fine-tune predicts.

Of a dense delta scales and plain differences are trained and the codes stay, of a low-rank one
latent factors that each step codes anew. The loss is the forward KL of each learned token over the
whole vocabulary (arXiv:2402.10193, section 3, compares logits by their squared difference, and
trains embeddings and norms as they are). The rows are some that the fine-tune learned from; the
last of them are not learned from and choose the best step, so that rows which nothing has seen
measure the result. `zoo-gym delta create --distill` starts it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from zoo.gym.config.values import path_text
from zoo.gym.engine import engine_for, open_engine
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import given_path
from zoo.gym.train.methods.distill import Distillation, DistillConfig
from zoo.gym.train.plan import Choice, Facts, Plan
from zoo.gym.train.planning.stored import main_dtype
from zoo.gym.train.run_folder.env import stored_device
from zoo.models.folder import SMALL_PARAMETERS, count_parameters

if TYPE_CHECKING:
    from zoo.backends.base import LoadSpec, Policy
    from zoo.gym.config.train import TrainConfig
    from zoo.gym.data.units import Unit
    from zoo.gym.delta.file.reader import Delta
    from zoo.gym.delta.trainable import TrainableTensor

STEPS, TOKENS_PER_STEP = 60, 512
RATE = 0.05
"""A share: a number moves by at most 5 % of its size in a step; measured in docs/log.md."""

EVALUATED_SHARE, MOST_EVALUATED = 0.1, 64
EVALUATIONS = 6


class DistillDeltaConfig(DistillConfig, frozen=True):
    """The settings of the distillation of a delta."""

    stage: Literal["distill_delta"] = Field(  # type: ignore[assignment]
        default="distill_delta",
        description="distill_delta trains numbers of a delta to predict what the fine-tune"
        " predicts",
    )
    finetuning_type: Literal["full", "lora"] = Field(
        default="full",
        description="full for a dense delta, with the fine-tune as teacher_model; lora for a"
        " low-rank one, with its adapter as adapter_name_or_path and the base as teacher_model",
    )
    delta_file: Annotated[str, BeforeValidator(path_text)] = Field(
        min_length=1, description="the delta that is trained"
    )

    @property
    def other_models(self) -> dict[str, str]:
        """The models besides the base: the fine-tune; with an adapter, it is on the base itself."""
        return {} if self.adapter_name_or_path is not None else super().other_models

    @property
    def other_files(self) -> dict[str, str]:
        """The files besides data and models: those of all methods, and the delta."""
        return super().other_files | {"delta_file": self.delta_file}

    @property
    def keeps_base(self) -> bool:
        """Whether the base can stay in its files: base plus delta is computed beside it."""
        return True

    def conflicts(self) -> Sequence[tuple[str, str]]:
        """Returns (key, message) for each setting that is wrong or conflicts with others."""
        faults = list(super().conflicts())
        if self.num_processes > 1:
            faults.append(("num_processes", "expected 1: one process has the whole gradient"))
        if self.optim != "adamw":
            faults.append(("optim", f"expected adamw, whose steps a delta takes, got {self.optim}"))
        if self.weight_decay:
            faults.append(("weight_decay", "expected 0: a delta does not decay"))
        if self.eval_dataset:
            text = "expected none: the last of the learned rows are evaluated on"
            faults.append(("eval_dataset", text))
        if (self.finetuning_type == "lora") != (self.adapter_name_or_path is not None):
            text = "expected the adapter that the delta codes with lora, and none with full"
            faults.append(("adapter_name_or_path", text))
        return faults


class DistillDelta(Distillation):
    """Trains numbers of a delta."""

    config = DistillDeltaConfig
    answers: ClassVar[bool] = False
    result: ClassVar[Literal["model", "delta"]] = "delta"
    loss_unit = "nats per token"
    watch = ("kl",)

    def __init__(
        self,
        policy: "Policy",
        plan: Plan,
        units: "Sequence[Unit]",
        held_out: "Sequence[Unit]",
        folder: Path,
    ) -> None:
        del held_out  # they measure the delta afterwards
        least = min(1, len(units) - 1)  # without one, nothing says whether training helps
        count = max(least, min(MOST_EVALUATED, int(len(units) * EVALUATED_SHARE)))
        learned, evaluated = units[: len(units) - count], units[len(units) - count :]
        super().__init__(policy, plan, learned, evaluated, folder)
        self._open = ExitStack()

    @classmethod
    def choices(cls, config: "TrainConfig", facts: Facts) -> Iterable[Choice]:
        """Returns the defaults that differ from those of all methods, each with its reason."""
        steps = config.max_steps or STEPS
        rows = max(1, min(facts.rows, round(TOKENS_PER_STEP * facts.rows / facts.tokens)))
        yield Choice("max_steps", STEPS, "a delta has few numbers: more steps gain little")
        yield Choice("learning_rate", RATE, "the share of its size that a number moves by")
        yield Choice(
            "per_device_train_batch_size", rows, f"about {TOKENS_PER_STEP} tokens in a step"
        )
        yield Choice("gradient_accumulation_steps", 1, "a step's rows are computed at once")
        yield Choice("eval_steps", max(1, steps // EVALUATIONS), f"{EVALUATIONS} evaluations")
        yield Choice("early_stopping_steps", 2, "evaluations without a lower divergence")

    @classmethod
    def check_models(cls, config: "TrainConfig", folder: Path) -> None:
        """Checks that the fine-tune reads the same tokens; an adapter on the base does."""
        if not config.trains_adapter:
            super().check_models(config, folder)

    @classmethod
    def load_spec(cls, config: "TrainConfig") -> "LoadSpec":
        """Returns how the base is loaded: frozen and as stored, if it stays in its files."""
        from zoo.models import resolve

        if not config.stream_layers or config.trains_adapter:
            return super().load_spec(config)
        spec = super().load_spec(config.model_copy(update={"stream_layers": False}))
        folder = resolve(config.model_name_or_path, offline=True).folder
        return replace(spec, train=None, stream_layers=True, dtype=main_dtype(folder))

    @classmethod
    def policy_of(cls, policy: "Policy", config: "TrainConfig", folder: Path) -> "Policy":
        """Returns base plus delta, of which numbers are trained.

        Raises:
            InputError: the delta is of another base, or has nothing that can be trained.
        """
        from zoo.gym.delta.file.reader import load_delta
        from zoo.gym.train.delta_policy import DeltaPolicy

        delta = load_delta(given_path(cast("DistillDeltaConfig", config).delta_file))
        form: Literal["lowrank", "dense"] = "lowrank" if config.trains_adapter else "dense"
        if delta.header.form != form:
            raise InputError(
                f"{delta.path}: expected a {form} delta with finetuning_type "
                f"{config.finetuning_type}, got a {delta.header.form} one",
                code="train.other_form",
            )
        on_use = config.stream_layers and not config.trains_adapter
        return DeltaPolicy(policy, delta, _tensors(delta, config, folder), on_use=on_use)

    def prepare(self) -> None:
        """Loads the fine-tune next to the policy; an adapter as it was is on the same base."""
        from zoo.gym.train.delta_policy import DeltaPolicy
        from zoo.models import resolve

        if not self.units:
            raise InputError("dataset: expected rows to learn from, got none", code="train.no_rows")
        if self.plan.config.trains_adapter:
            self.teacher = self._open.enter_context(cast("DeltaPolicy", self.policy).reference())
            return
        folder = resolve(self._settings.teacher_model, offline=True).folder
        self.teacher = _teacher(folder, stored_device(self.folder / "env.json"))

    def close(self) -> None:
        """Leaves the reference."""
        self._open.close()


def _tensors(delta: "Delta", config: "TrainConfig", folder: Path) -> "Iterator[TrainableTensor]":
    """Yields the tensors of a delta, as the loaded model has them.

    Raises:
        InputError: the delta is of another base, or one is no parameter of the loaded model.
    """
    from zoo.gym.delta.file.reader import tensor_parts
    from zoo.gym.delta.latent_factors import LatentFactors
    from zoo.gym.delta.reading.adapter import read_adapter
    from zoo.gym.delta.reading.identity import verify_base
    from zoo.gym.delta.reading.weights import open_weights, read_values
    from zoo.gym.delta.trainable import ScaledTensor

    base = open_weights(folder)
    verify_base(delta, base)
    tensors = [tensor for tensor in delta.header.tensors if tensor.terms]
    if (first := config.first_adapter) is not None:
        adapter = read_adapter(first, base)
        yield from (LatentFactors(tensor, adapter) for tensor in tensors)
        return
    parameters = engine_for(folder).parameter_names(folder)
    for tensor in tensors:
        if tensor.name not in parameters:
            raise InputError(
                f"{delta.path}: tensor {tensor.name!r}: expected one that the loaded model has as a"
                " parameter, got one that is joined or split on loading",
                hint="--distill off",
                code="train.joined_tensor",
            )
        values = partial(read_values, base, tensor.name)
        yield ScaledTensor(tensor, tensor_parts(delta, tensor), values, parameters[tensor.name])


def _teacher(folder: Path, device: str) -> "Policy":
    """Returns a fine-tune for inference; the layers of a large one stay in its file."""
    from zoo.backends.base import LoadSpec

    engine = open_engine(device)
    streams = count_parameters(folder) >= SMALL_PARAMETERS and engine.name == "cpu"
    try:
        return engine.load(folder, LoadSpec(stream_layers=streams))
    except (InputError, NotAvailableError):
        return engine.load(folder)
