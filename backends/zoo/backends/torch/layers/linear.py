"""The linear layers of a model, and those among them that are more than a product."""

from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.numbers.widened import WidenedLinear

MAMBA = frozenset({"falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"})
"""The `model_type`s that peft 0.21 treats as state-space models."""


def linear_modules(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Returns the linear layers by name."""
    return [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear)]


def left_out(model: Any) -> list[str] | None:  # noqa: ANN401
    """Returns the linear layers that "all" leaves out: LoRA on them fails or has no effect.

    Routers return more than a product. State-space layers read some weights without calling the
    layer: `dt_proj` always, `out_proj` in fast kernels, where peft refuses it. peft cannot load
    layers that transformers renames a second time (shared experts of Laguna).
    """
    read = (".dt_proj", ".out_proj") if model.config.model_type in MAMBA else (".dt_proj",)
    layers = linear_modules(model)
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
        name = key
        for step in renamings:
            name, _ = step.rename_source_key(name)
        return name != key

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
