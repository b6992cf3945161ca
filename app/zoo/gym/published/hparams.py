"""Training with the Python functions of LLaMA-Factory: `get_train_args` and `run_sft`.

    model_args, data_args, training_args, finetuning_args, generating_args = get_train_args(
        {"model_name_or_path": "zen-pico", "dataset": "my.jsonl"}
    )
    run_sft(model_args, data_args, training_args, finetuning_args, generating_args)

Settings are those of `TrainConfig`, in any published spelling, divided into five objects. They are
attributes: `training_args.learning_rate`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from zoo.gym.arguments import instance_of
from zoo.gym.config import Ignored, Loaded, TrainConfig, load_config, load_values
from zoo.gym.config.describe import is_switch
from zoo.gym.config.foreign import SWITCHES
from zoo.gym.config.load import ours
from zoo.gym.config.report import nearest, shown
from zoo.gym.config.stages import all_fields, config_class
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from zoo.gym.jobs.run import RunResult


class Arguments:
    """Settings as attributes; immutable, because they were checked together.

    Args:
        values: the settings by name.
        ignored: settings that were given and have no effect.
    """

    keys: ClassVar[frozenset[str]] = frozenset()
    """The settings of this object, as far as the method has them."""

    how_to_make: ClassVar[str] = "get_train_args({{..., {}}})"
    """How to make an object with another setting, for hints."""

    def __init__(self, values: Mapping[str, object], ignored: Sequence[Ignored] = ()) -> None:
        vars(self).update(_values=dict(values), _ignored=tuple(ignored))

    @property
    def without_effect(self) -> tuple[Ignored, ...]:
        """The settings that were recognised and have no effect, with the reasons."""
        return cast("tuple[Ignored, ...]", vars(self)["_ignored"])

    def to_dict(self) -> dict[str, object]:
        """Returns the settings by name."""
        return dict(vars(self)["_values"])

    def __getattr__(self, name: str) -> object:
        values: Mapping[str, object] = vars(self).get("_values", {})
        if ours(name) in values:
            return values[ours(name)]
        close = nearest(name, values)
        mean = f". Did you mean '{close}'?" if close else ""
        raise AttributeError(f"{type(self).__name__} has no setting '{name}'{mean}")

    def __setattr__(self, name: str, value: object) -> None:
        raise InputError(
            f"{name}: settings are immutable: expected a new object",
            hint=self.how_to_make.format(f"{name!r}: {value!r}"),
            code="published.immutable",
        )

    def __dir__(self) -> Iterator[str]:
        return iter([*super().__dir__(), *self.to_dict()])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"


class ModelArguments(Arguments):
    """The base model and how it is loaded."""

    keys = frozenset(
        {"model_name_or_path", "dtype", "moe_aux_loss_coef", "offline", "quantization_bit"}
        | {"quantization_method", "quantization_type", "double_quantization", "backend"}
        | {"adapter_name_or_path", "stream_layers", "rope_scaling"}
        | {"activation_offloading", "enable_liger_kernel", "flash_attn"}
    )


class DataArguments(Arguments):
    """The examples and how they become tokens."""

    keys = frozenset(
        {"dataset", "eval_dataset", "dataset_dir", "cutoff_len", "max_samples", "val_size"}
        | {"split_special_tokens", "append_eos", "packing", "mix_strategy", "interleave_probs"}
        | {"columns", "me", "think", "date", "template"}
    )


class TrainingArguments(Arguments):
    """Steps, batches, learning rate, evaluations, checkpoints and the result."""

    keys = frozenset(
        {"output_dir", "overwrite_output_dir", "per_device_train_batch_size", "learning_rate"}
        | {"gradient_accumulation_steps", "gradient_checkpointing", "num_train_epochs"}
        | {"max_steps", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "weight_decay"}
        | {
            "max_grad_norm",
            "seed",
            "eval_steps",
            "early_stopping_steps",
            "save_steps",
            "save_only_model",
            "report_to",
        }
        | {"save_total_limit", "optim", "decay_ratio", "neftune_noise_alpha"}
    )


class GeneratingArguments(Arguments):
    """How answers are sampled; only methods that sample answers have such settings."""

    keys = frozenset({"max_completion_length", "temperature"})


class FinetuningArguments(Arguments):
    """The method, the adapter, and every setting of a single method."""


FIVE = (ModelArguments, DataArguments, TrainingArguments, FinetuningArguments, GeneratingArguments)
NAMES = ("model_args", "data_args", "training_args", "finetuning_args", "generating_args")


def get_train_args(
    args: Mapping[str, object] | Sequence[str] | None = None,
) -> tuple[
    ModelArguments, DataArguments, TrainingArguments, FinetuningArguments, GeneratingArguments
]:
    """Checks settings and divides them into five objects.

    Args:
        args: settings by name; or words of a command line, `--key value`, `key=value` and .yaml
            files; None takes the words of this process.

    Raises:
        InputError: unknown settings or invalid values, one line for each.
        NotAvailableError: a file of settings is missing.
    """
    if isinstance(args, Mapping):
        loaded = load_values(args)
    elif isinstance(args, str):
        raise InputError(
            f"args: expected settings by name or a list of words, got {shown(args)}",
            code="published.bad_argument",
        )
    else:
        loaded = _from_words(sys.argv[1:] if args is None else args)
    config = loaded.config
    values = {key: getattr(config, key) for key in type(config).model_fields}
    if config.rows:
        values["dataset"] = list(config.rows)
    rest = frozenset(values).difference(*(kind.keys for kind in FIVE))
    parts = [
        {key: value for key, value in values.items() if key in (kind.keys or rest)} for kind in FIVE
    ]
    model, data, training, finetuning, generating = parts
    return (
        ModelArguments(model),
        DataArguments(data),
        TrainingArguments(training, loaded.ignored),
        FinetuningArguments(finetuning),
        GeneratingArguments(generating),
    )


def run_sft(
    model_args: ModelArguments,
    data_args: DataArguments,
    training_args: TrainingArguments,
    finetuning_args: FinetuningArguments,
    generating_args: GeneratingArguments,
    callbacks: Sequence[Callable[..., object]] | None = None,
) -> "RunResult":
    """Trains supervised in this process and returns when the run is done, as `run_training` does.

    Args:
        model_args: from `get_train_args`, as the four others.
        data_args: the examples.
        training_args: steps and rates.
        finetuning_args: the adapter; its stage is sft.
        generating_args: has no setting with stage sft.
        callbacks: expected to be empty: the events of the run are in its folder.

    Raises:
        InputError: an argument is not of its class, another stage, or callbacks are given.
        GymError: see `run_training`.
    """
    from zoo.gym.published.api import train_here

    arguments = (model_args, data_args, training_args, finetuning_args, generating_args)
    values: dict[str, object] = {}
    for name, kind, argument in zip(NAMES, FIVE, arguments, strict=True):
        hint = "get_train_args(settings) returns all five"
        values |= instance_of(name, argument, kind, hint=hint).to_dict()
    if values["stage"] != "sft":
        raise InputError(
            f"stage: run_sft trains with stage sft, got {shown(values['stage'])}",
            hint="run_training(TrainConfig(stage=..., ...)) trains with every method",
            code="published.bad_argument",
        )
    if callbacks:
        raise InputError(
            "callbacks: not supported: expected None",
            hint="the events of a run are in events.jsonl of its folder",
            code="published.not_supported",
        )
    return train_here(_config_of(values), training_args.without_effect)


def _config_of(values: Mapping[str, object]) -> TrainConfig:
    """Returns the settings among all values; a default counts as not given."""
    fields = config_class(values["stage"]).model_fields
    settings = {
        key: value
        for key, value in values.items()
        if key not in fields or value != fields[key].default
    }
    return TrainConfig.model_validate(settings)


def _from_words(words: Sequence[str]) -> Loaded:
    """Reads the words of a command line; a flag without a value is true."""
    files: list[Path] = []
    items: list[str] = []
    waiting: str | None = None
    for word in words:
        key, equals, value = word.removeprefix("--").partition("=")
        if waiting and _is_value(word, waiting):
            items[-1] = f"{waiting}={word}"
            waiting = None
        elif word.startswith("--"):
            waiting = None if equals else key.replace("-", "_")
            items.append(f"{key.replace('-', '_')}={value if equals else 'true'}")
        elif word.endswith((".yaml", ".yml")):
            files.append(Path(word))
            waiting = None
        elif equals:
            items.append(word)
            waiting = None
        else:
            raise InputError(
                f"{word}: expected --key value, key=value or a .yaml file of settings",
                code="published.bad_argument",
            )
    return load_config(files, items, {})


def _is_value(word: str, key: str) -> bool:
    """Returns whether a word behind a flag is its value: of a switch only true and false are."""
    is_switch_key = key in SWITCHES or (key in all_fields() and is_switch(key))
    return word.lower() in {"true", "false"} if is_switch_key else not word.startswith("--")
