"""Loads the base model as a policy to train, and records warnings as events of the run."""

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoo.backends.optimizer_spec import APOLLO
from zoo.gym.config.stages import load_method
from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import GymWarning
from zoo.gym.train.plan import Plan

if TYPE_CHECKING:
    from zoo.backends.base import (
        Backend,
        FreezeSpec,
        LoadSpec,
        LoraSpec,
        Policy,
        Precision,
        ProjectionSpec,
        QuantizationSpec,
        Workload,
    )
    from zoo.backends.optimizer_spec import OptimizerSpec
    from zoo.backends.ranks import Ranks
    from zoo.backends.spec import OftSpec, Train


ATTENTION: "Mapping[str, Literal['auto', 'sdpa', 'eager']]" = {
    "auto": "auto",
    "sdpa": "sdpa",
    "disabled": "eager",
}
"""The engines' names of the values of `flash_attn`."""


def load_policy(
    config: TrainConfig,
    folder: Path,
    engine: "Backend",
    *,
    threads: int,
    must_pack: bool = True,
    ranks: "Ranks | None" = None,
) -> "Policy":
    """Loads the base as a policy that is trained as `config` specifies.

    Args:
        config: the settings.
        folder: the folder of the base.
        engine: the engine.
        threads: the threads that it uses.
        must_pack: a model that cannot be packed is an error, not a reason to pad.
        ranks: the processes that train it, if there are several.
    """
    from zoo.backends.machine.threads import use_threads

    use_threads(threads)
    method = load_method(config.stage)
    spec = method.load_spec(config)
    if spec.packing == "required" and not must_pack:
        spec = replace(spec, packing="preferred")
    policy: Policy = method.policy_of(engine.load(folder, spec), config, folder)
    if ranks is None:
        return policy
    if spec.sharded:
        return engine.divide(policy, ranks)
    policy.ranks = ranks
    return policy


def choose_precision(engine: "Backend", folder: Path, plan: Plan, work: "Workload") -> "Precision":
    """Returns the number format of the weights: the one given, or the engine's choice."""
    config = plan.config
    full = not config.trains_adapter
    streams = config.stream_layers
    return engine.choose_precision(folder, config.dtype, full=full, work=work, streams=streams)


def load_spec(config: TrainConfig) -> "LoadSpec":
    """Returns the part of `config` that matters for loading; a method may change it."""
    from zoo.backends.base import LoadSpec
    from zoo.backends.rope import RopeSpec

    kind = config.rope_scaling
    return LoadSpec(
        train=train_spec(config),
        adapter=config.first_adapter,
        dtype=config.dtype,
        quantization=quantization_spec(config),
        rope=None if kind is None else RopeSpec(kind, config.cutoff_len),
        gradient_checkpointing=bool(config.gradient_checkpointing),
        offload_activations=config.activation_offloading,
        liger=config.enable_liger_kernel,
        attention=ATTENTION[config.flash_attn],
        packing="required" if config.packing else "off",
        stream_layers=config.stream_layers,
        router_loss=config.moe_aux_loss_coef,
        optimizer=optimizer_spec(config),
        neftune_noise_alpha=config.neftune_noise_alpha or 0.0,
        seed=config.seed,
        sharded=config.sharding == "full",
    )


def optimizer_spec(config: TrainConfig) -> "OptimizerSpec":
    """Returns the optimizer that `config` describes."""
    from zoo.backends.base import BlockSpec, OptimizerSpec, ParameterGroup, ProjectionSpec

    ratio, blocks = config.loraplus_lr_ratio, BlockSpec()
    if config.optim == "badam":
        blocks = BlockSpec(
            order=config.badam_switch_mode,
            interval=config.badam_switch_interval or blocks.interval,
            start=config.badam_start_block,
            seed=config.seed,
        )
    return OptimizerSpec(
        weight_decay=config.weight_decay,
        groups=(ParameterGroup("lora_B.weight", lr_scale=ratio),) if ratio else (),
        name=config.optim,
        projection=projection_spec(config) or ProjectionSpec(),
        blocks=blocks,
    )


def projection_spec(config: TrainConfig) -> "ProjectionSpec | None":
    """Returns how the optimizer projects gradients; None for one that does not."""
    from zoo.backends.base import ProjectionSpec

    if config.optim == "galore":
        return ProjectionSpec(
            rank=config.galore_rank,
            interval=config.galore_update_interval,
            scale=config.galore_scale,
            targets=_targets(config.galore_target),
        )
    if config.optim not in APOLLO:
        return None
    mini = config.optim == "apollo_mini"
    return ProjectionSpec(
        rank=1 if mini else config.apollo_rank,
        interval=config.apollo_update_interval,
        scale=config.apollo_scale or (128.0 if mini else 32.0),
        targets=_targets(config.apollo_target),
        kind=config.apollo_proj,
        scaling="tensor" if mini else config.apollo_scale_type,
        seed=config.seed,
    )


def train_spec(config: TrainConfig) -> "Train":
    """Returns what `config` trains."""
    if config.adapter_name_or_path is not None:
        return "adapter"
    if config.finetuning_type == "full":
        return "full"
    if config.finetuning_type == "freeze":
        return freeze_spec(config)
    return oft_spec(config) if config.finetuning_type == "oft" else lora_spec(config)


def freeze_spec(config: TrainConfig) -> "FreezeSpec":
    """Returns the weights of the base that `config` trains."""
    from zoo.backends.base import FreezeSpec

    return FreezeSpec(
        layers=config.freeze_trainable_layers,
        modules=_names(config.freeze_trainable_modules),
        extra=_optional(config.freeze_extra_modules),
    )


def _names(text: str) -> tuple[str, ...]:
    """Returns the names in a text, separated by commas."""
    return tuple(part.strip() for part in text.split(","))


def _optional(text: str | None) -> tuple[str, ...]:
    """Returns the names in a text; none if it is not given."""
    return () if text is None else _names(text)


def _targets(text: str) -> tuple[str, ...]:
    """Returns the names of modules in a text; those of all layers for `all`."""
    names = _names(text)
    return ("all-linear",) if names == ("all",) else names


def quantization_spec(config: TrainConfig) -> "QuantizationSpec | None":
    """Returns how the base is quantised, or None."""
    from zoo.backends.base import QuantizationSpec

    if config.quantization_bit is None:
        return None
    return QuantizationSpec(
        bits=config.quantization_bit,
        kind=config.quantization_type or "nf4",
        double=config.doubles,
        method=config.quantization_method or ("bnb" if config.names_codes_of_bnb else "auto"),
    )


def lora_spec(config: TrainConfig) -> "LoraSpec":
    """Returns the adapter that `config` describes."""
    from zoo.backends.base import LoraSpec

    return LoraSpec(
        rank=config.lora_rank,
        alpha=config.lora_alpha or 2.0 * config.lora_rank,
        dropout=config.lora_dropout,
        targets=_targets(config.lora_target),
        rslora=config.use_rslora,
        dora=config.dora,
        init="pissa" if config.pissa_init else "loftq" if config.loftq_init else "default",
        pissa_iter=config.pissa_iter,
        whole=_optional(config.additional_target),
        fixed_a=config.lora_fixed_a,
        delta_bits=config.delta_bits,
    )


def oft_spec(config: TrainConfig) -> "OftSpec":
    """Returns the rotations that `config` describes."""
    from zoo.backends.spec import OftSpec

    return OftSpec(
        rank=config.oft_rank,
        block_size=0 if config.oft_rank else config.oft_block_size,
        dropout=config.module_dropout,
        targets=_targets(config.oft_target),
        whole=_optional(config.additional_target),
    )


@contextmanager
def warnings_as_events(emit: Callable[..., object]) -> Generator[None]:
    """Emits our warnings as events of the run; others are shown as usual."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", GymWarning)
            yield
    finally:  # after an error, too: the warnings may explain it
        for warning in caught:
            if issubclass(warning.category, GymWarning):
                emit("warn", message=str(warning.message))
            else:
                warnings.showwarning(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
