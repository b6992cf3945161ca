"""Adds a new adapter to a model: LoRA (arXiv:2106.09685) and its variants, or OFT."""

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zoo.backends.adapter_rank import warn_of_rank
from zoo.backends.spec import LoraSpec, NewAdapter, OftSpec
from zoo.backends.torch.adapters.configs import ALL, peft_config, reads_weights, target_key
from zoo.backends.torch.adapters.dora import set_magnitudes
from zoo.backends.torch.adapters.fixed import fix_factors
from zoo.backends.torch.adapters.names import is_added
from zoo.backends.torch.adapters.no_delta import warn_of_no_delta
from zoo.backends.torch.adapters.oft import prepare_rotations
from zoo.backends.torch.adapters.placement import linear_layers, require_layers, warn_of_experts
from zoo.backends.torch.adapters.start import start_from_singular_values
from zoo.backends.torch.adapters.whole import find_whole, widen_copies
from zoo.backends.torch.quantized.int8 import check_codes
from zoo.backends.torch.quantized.library import import_bitsandbytes
from zoo.backends.torch.quiet import peft_alone, quiet
from zoo.core.errors import InputError
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    from peft import PeftModel


def add_adapter(
    model: nn.Module,
    spec: NewAdapter,
    *,
    seed: int,
    stored: Container[str] | None = None,
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
        GymWarning: no delta can be made of such an adapter, or its rank is above a layer's side.
    """
    import_bitsandbytes()  # before peft does it
    from peft import get_peft_model

    if reads_weights(spec):
        check_codes(model)
    config, key = peft_config(model, spec), target_key(spec)
    named = ", ".join(map(repr, spec.targets))
    endings = ", ".join(sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)}))
    if list(spec.targets) != [ALL]:
        require_layers(model, list(spec.targets), endings, key, find_whole(model, spec.whole))
    torch.manual_seed(seed)
    try:
        with refusals(f"{key}: {named} cannot be used here"), quiet(), peft_alone():
            adapted = get_peft_model(model, config)
            lost = _lost_when_saved(adapted)
            widen_copies(adapted)
            _set_start(adapted, spec, stored)
    except InputError as error:
        if "ParamWrapper" in error.message:  # peft's class for experts
            raise _no_experts(model, config) from error
        error.hint = error.hint or f"this model has layers that end with {endings}"
        raise
    if lost:
        raise InputError(
            f"{key}: peft cannot read back an adapter on {type(model).__name__}: it would "
            f"lose {lost[0]!r}",
            hint=f"choose other layers, whose names end with {endings}, or finetuning_type=full",
            code="torch.adapter_not_readable",
        )
    if list(spec.targets) == [ALL] and not isinstance(spec, LoraSpec):
        warn_of_experts(model, key)
    warn_of_no_delta(adapted, stored)
    if isinstance(spec, LoraSpec) and spec.init == "default":  # other starts need the rank
        warn_of_rank(spec.rank, _sides(adapted))
    adapted.eval()  # no dropout in the checks before training
    return adapted


def _set_start(model: "PeftModel", spec: NewAdapter, stored: Container[str] | None) -> None:
    """Sets the values that an adapter starts with where they are not peft's."""
    if isinstance(spec, OftSpec):
        prepare_rotations(model, spec)
        return
    set_magnitudes(model)
    if spec.init == "pissa":
        start_from_singular_values(model, spec)
    if spec.fixed_a is not None:
        fix_factors(model, spec.fixed_a, stored)


def _sides(model: "PeftModel") -> dict[str, tuple[int, int]]:
    """Returns the outputs and inputs of each adapted layer by name."""
    from peft.tuners.lora import LoraLayer

    sides: dict[str, tuple[int, int]] = {}
    for name, module in model.get_base_model().named_modules():
        if isinstance(module, LoraLayer):
            layer: Any = module
            sides[name] = (int(layer.out_features), int(layer.in_features))
    return sides


def _no_experts(model: nn.Module, config: Any) -> InputError:  # noqa: ANN401
    """Returns the error for a kind of adapter that stacked experts cannot have."""
    key = "use_dora" if getattr(config, "use_dora", False) else "lora_dropout"
    layers = sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)} - {"lm_head"})
    return InputError(
        f"{key}: expected linear layers, got the stacked experts of {type(model).__name__}",
        hint=f"adapt the other layers alone: lora_target={','.join(layers)}",
        code="backends.not_linear",
    )


def _lost_when_saved(model: "PeftModel") -> list[str]:
    """Returns the tensors that peft saves under names that it cannot load.

    peft applies the renaming rules of transformers, which it cannot always invert.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    saved = get_peft_model_state_dict(model, save_embedding_layers=False)
    result: Any = set_peft_model_state_dict(model, saved)
    missing = [name for name in result.missing_keys if is_added(name)]
    return sorted([*result.unexpected_keys, *missing])
