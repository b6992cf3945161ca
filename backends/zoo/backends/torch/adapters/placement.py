"""The layers that adapters are placed on."""

import warnings
from collections.abc import Sequence
from typing import Any

from torch import nn

from zoo.backends.torch.adapters.names import is_added
from zoo.backends.torch.layers.linear import left_out, linear_modules
from zoo.core.errors import GymWarning, InputError


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
                code="backends.no_such_module",
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


def linear_layers(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Returns the linear layers by name, without the parts of an adapter on them."""
    modules = linear_modules(model)
    return [(name.removesuffix(".base_layer"), m) for name, m in modules if not is_added(name)]


def adapted_layers(
    model: Any,  # noqa: ANN401
    targets: list[str],
    whole: Sequence[str],
) -> list[tuple[str, nn.Linear]]:
    """Returns the linear layers that get an adapter: not the head by "all", nor whole modules."""
    if targets == ["all-linear"]:
        head, lost = model.get_output_embeddings(), left_out(model) or []
        layers = [
            layer for layer in linear_layers(model) if layer[1] is not head and layer[0] not in lost
        ]
    else:
        ends = tuple(f".{each}" for each in targets)
        layers = [layer for layer in linear_layers(model) if f".{layer[0]}".endswith(ends)]
    inside = tuple(f"{name}." for name in whole)
    return [layer for layer in layers if not f"{layer[0]}.".startswith(inside)]
