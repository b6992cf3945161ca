"""Which trained parameters belong to which block of the model, by their names."""

import re
from collections.abc import Mapping
from typing import Any

from torch import nn

from zoo.backends.torch.compat import whole_number

BLOCK = re.compile(r"(.*?\.\d+)\.")
"""The name of a parameter in a block: the first part that is a number ends the block's name."""


def block_of(name: str) -> str | None:
    """Returns the block of a parameter, `model.layers.0`; None for embeddings, heads and norms."""
    match = BLOCK.match(name)
    return match[1] if match else None


def is_linear(name: str, parameter: nn.Parameter) -> bool:
    """Returns whether a parameter is the matrix of a layer inside a block, or of its adapter."""
    return block_of(name) is not None and parameter.dim() == 2 and name.endswith(".weight")


def split_linear(
    parameters: Mapping[str, nn.Parameter],
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Returns the matrices of layers inside blocks, and the other parameters."""
    linear = {name: p for name, p in parameters.items() if is_linear(name, p)}
    return linear, {name: p for name, p in parameters.items() if name not in linear}


def head_dim(model: nn.Module) -> int | None:
    """Returns the width of a model's attention heads; None if its config does not say."""
    settings: Any = model.config
    config = getattr(settings, "text_config", None) or settings
    width, hidden, heads = (
        whole_number(config, name) for name in ("head_dim", "hidden_size", "num_attention_heads")
    )
    if width is not None:
        return width
    return hidden // heads if hidden and heads else None
