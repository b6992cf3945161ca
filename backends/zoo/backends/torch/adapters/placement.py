"""The layers that adapters are placed on."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.adapters.names import is_added
from zoo.backends.torch.numbers.widened import WidenedLinear
from zoo.core.errors import GymWarning, InputError

MAMBA = frozenset({"falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"})
"""The `model_type`s that peft 0.21 treats as state-space models."""


def require_layers(
    model: nn.Module,
    targets: list[str],
    known: str,
    key: str = "lora_target",
    whole: Sequence[str] = (),
) -> None:
    """Refuses a target that matches no layer; peft ignores it as long as another one matches.

    Args:
        model: a model without an adapter.
        targets: the ends of the names of layers.
        known: such ends, for messages.
        key: the setting that names them.
        whole: the modules that are trained whole: there is no adapter on them or inside them.
    """
    inside = tuple(f"{name}." for name in whole)
    names = [name for name, _ in model.named_modules() if not f"{name}.".startswith(inside)]
    for target in targets:
        if not target or not any(f".{name}".endswith(f".{target}") for name in names):
            raise InputError(
                f"{key}: expected names that layers end with, got {target!r}",
                hint=f"this model has layers that end with {known}",
            )


def warn_of_experts(model: nn.Module, key: str) -> None:
    """Warns of stacked experts, which only LoRA adapts: most weights of the model stay as they are.

    Warns:
        GymWarning: the model has some.
    """
    stacked = any(p.dim() > 2 and "expert" in name for name, p in model.named_parameters())
    if stacked:
        warnings.warn(
            f"{key}: all leaves out the stacked experts of {type(model).__name__}, which only "
            "finetuning_type lora adapts",
            GymWarning,
            stacklevel=5,
        )


def left_out(model: Any) -> list[str] | None:  # noqa: ANN401
    """Returns the linear layers that "all" leaves out: LoRA on them fails or has no effect.

    Routers return more than a product. State-space layers read some weights without calling the
    layer: `dt_proj` always, `out_proj` in fast kernels, where peft refuses it. peft cannot load
    layers that transformers renames a second time (shared experts of Laguna).
    """
    read = (".dt_proj", ".out_proj") if model.config.model_type in MAMBA else (".dt_proj",)
    layers = linear_layers(model)
    lost = renamed(model, [name for name, _ in layers])
    return [
        name
        for name, layer in layers
        if name.endswith(read) or name in lost or not _gives_product(layer)
    ] or None


def renamed(model: Any, names: list[str]) -> list[str]:  # noqa: ANN401
    """Returns the layers that transformers renames a second time when peft loads an adapter."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming

    renamings = [
        step for step in get_model_conversion_mapping(model) if isinstance(step, WeightRenaming)
    ]

    def changes(key: str) -> bool:
        found = key
        for step in renamings:
            found, _ = step.rename_source_key(found)
        return found != key

    return [name for name in names if changes(f"{name}.lora_A.weight")]


@torch.no_grad()
def _gives_product(layer: nn.Linear) -> bool:
    if type(layer).forward in (nn.Linear.forward, WidenedLinear.forward):
        return True
    try:
        out: object = layer(layer.weight.new_zeros(1, layer.in_features))
    except (TypeError, ValueError, RuntimeError, IndexError):  # it has other inputs
        return False
    return isinstance(out, Tensor) and out.shape == (1, layer.out_features)


def linear_layers(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Returns the linear layers by name, without the parts of an adapter on them."""
    found = ((name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear))
    return [(name.removesuffix(".base_layer"), m) for name, m in found if not is_added(name)]


def adapted_layers(
    model: Any,  # noqa: ANN401
    targets: list[str],
    whole: Sequence[str],
) -> list[tuple[str, nn.Linear]]:
    """Returns the linear layers that get an adapter: not the head by "all", nor whole modules."""
    if targets == ["all-linear"]:
        head, lost = model.get_output_embeddings(), left_out(model) or []
        layers = [one for one in linear_layers(model) if one[1] is not head and one[0] not in lost]
    else:
        ends = tuple(f".{each}" for each in targets)
        layers = [one for one in linear_layers(model) if f".{one[0]}".endswith(ends)]
    inside = tuple(f"{name}." for name in whole)
    return [one for one in layers if not f"{one[0]}.".startswith(inside)]
