"""The value head, the size of a model, and the folder of a model that was trained in full."""

import math
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from zoo.backends.mlx.files.quantized import linear_shape
from zoo.backends.mlx.language import Language, Slot
from zoo.backends.mlx.layers.lora import LoraLinear, is_linear
from zoo.backends.mlx.trained import to_host

VALUE_HEAD = "value_head.weight"
"""The canonical name of the value head."""


def value_head(width: int) -> Slot:
    """Returns a linear layer of zeros, so that every value is zero before training."""
    return Slot({"weight": mx.zeros((1, width))}, "weight")


def all_slots(model: Any) -> dict[str, Slot]:  # noqa: ANN401
    """Returns every parameter of a model by name."""
    slots: dict[str, Slot] = {}
    for prefix, module in model.named_modules():
        for key, value in module.items():
            if isinstance(value, mx.array) and not key.startswith("_"):
                slots[f"{prefix}.{key}" if prefix else key] = Slot(module, key)
    return {name: slots[name] for name in sorted(slots)}


def parameter_count(language: Language) -> int:
    """Returns the number of the base model's parameters, tied ones once."""
    total = 0
    for module in language.model.modules():
        if isinstance(module, LoraLinear):
            continue
        for name, value in module.items():
            if isinstance(value, mx.array) and not name.startswith("_"):
                total += _size(module, name, value)
    return total


def _size(module: Any, name: str, value: mx.array) -> int:  # noqa: ANN401
    """Returns how many parameters an array stands for: a quantised weight is packed."""
    bits = getattr(module, "bits", None)
    if bits is None:
        return int(value.size)
    if name != "weight":
        return int(value.size) if name == "bias" else 0
    return math.prod(linear_shape(module)) if is_linear(module) else int(value.size * 32 // bits)


def save_full(language: Language, folder: Path) -> None:
    """Writes a float32 folder that transformers loads."""
    from safetensors.numpy import save_file
    from transformers import AutoConfig, GenerationConfig

    folder.mkdir(parents=True, exist_ok=True)
    source = language.loaded.folder
    config: Any = AutoConfig.from_pretrained(source, local_files_only=True)
    config.dtype = "float32"
    config.save_pretrained(folder)
    if (source / "generation_config.json").is_file():
        GenerationConfig.from_pretrained(source, local_files_only=True).save_pretrained(folder)
    tensors = {name: to_host(v) for name, v in tree_flatten(language.model.parameters())}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
