"""Adds a new adapter to a model: LoRA (arXiv:2106.09685) and its variants."""

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zoo.backends.base import LoraSpec
from zoo.backends.torch.adapters.dora import set_magnitudes
from zoo.backends.torch.adapters.no_delta import warn_of_no_delta
from zoo.backends.torch.adapters.placement import left_out, linear_layers, require_layers
from zoo.backends.torch.adapters.start import start_from_singular_values
from zoo.backends.torch.quantized.int8 import check_codes
from zoo.backends.torch.quantized.library import import_bitsandbytes
from zoo.backends.torch.quiet import peft_alone, quiet
from zoo.core.errors import InputError
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    from peft import PeftModel


def add_lora(
    model: nn.Module, spec: LoraSpec, *, seed: int, stored: Container[str] | None = None
) -> "PeftModel":
    """Adds a new adapter to every layer that `spec` targets; it starts without effect.

    Args:
        model: a model without an adapter.
        spec: the settings of the adapter.
        seed: the seed of its initialisation.
        stored: the names of the tensors in the model's files, to warn of layers without a delta.

    Raises:
        InputError: a target matches no layer, or peft cannot adapt a matching layer.

    Warns:
        GymWarning: no delta can be made of such an adapter.
    """
    import_bitsandbytes()  # before peft does it
    from peft import LoraConfig, get_peft_model

    if spec.dora or spec.init == "pissa":
        check_codes(model)
    targets: str | list[str] = list(spec.targets)
    if targets == ["all-linear"]:
        targets = "all-linear"
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=spec.rank,
        lora_alpha=spec.alpha,  # type: ignore[arg-type]
        lora_dropout=spec.dropout,
        target_modules=targets,
        exclude_modules=left_out(model) if targets == "all-linear" else None,
        use_rslora=spec.rslora,
        use_dora=spec.dora,
    )
    named = ", ".join(map(repr, spec.targets))
    known = ", ".join(sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)}))
    if isinstance(targets, list):
        require_layers(model, targets, known)
    torch.manual_seed(seed)
    try:
        with refusals(f"lora_target: {named} cannot be used here"), quiet(), peft_alone():
            adapted = get_peft_model(model, config)
            lost = _lost_when_saved(adapted)
            set_magnitudes(adapted)
            if spec.init == "pissa":
                start_from_singular_values(adapted, spec)
    except InputError as error:
        if "ParamWrapper" in error.message:  # peft's class for experts
            raise _no_experts(model, config) from error
        error.hint = f"this model has layers that end with {known}"
        raise
    if lost:
        raise InputError(
            f"lora_target: peft cannot read back an adapter on {type(model).__name__}: it would "
            f"lose {lost[0]!r}",
            hint=f"choose other layers, whose names end with {known}, or finetuning_type=full",
        )
    warn_of_no_delta(adapted, stored)
    adapted.eval()  # no dropout in the checks before training
    return adapted


def _no_experts(model: nn.Module, config: Any) -> InputError:  # noqa: ANN401
    """Returns the error for a kind of adapter that stacked experts cannot have."""
    key = "use_dora" if config.use_dora else "lora_dropout"
    layers = sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)} - {"lm_head"})
    return InputError(
        f"{key}: expected linear layers, got the stacked experts of {type(model).__name__}",
        hint=f"adapt the other layers alone: lora_target={','.join(layers)}",
    )


def _lost_when_saved(model: "PeftModel") -> list[str]:
    """Returns the tensors that peft saves under names that it cannot load.

    peft applies the renaming rules of transformers, which it cannot always invert.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    saved = get_peft_model_state_dict(model, save_embedding_layers=False)
    result: Any = set_peft_model_state_dict(model, saved)
    missing = [name for name in result.missing_keys if "lora_" in name]
    return sorted([*result.unexpected_keys, *missing])
