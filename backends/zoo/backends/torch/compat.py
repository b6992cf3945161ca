"""Compatibility with torch and transformers older than those that zoo-gym requires.

The GPU tests may run on machines with older versions; an installed zoo-gym has the required ones.
"""

from typing import Any

import torch
from torch import nn

MIXED_PRODUCTS = "dtype_out" in torch.ops.aten.mm.overloads()  # type: ignore[no-untyped-call]
"""Whether a GPU product of 16-bit values can have a float32 result; since torch 2.8."""


def reads_slices() -> bool:
    """Returns whether transformers accepts unread tensor slices; since version 5."""
    import transformers

    return int(transformers.__version__.partition(".")[0]) >= 5


def checkpoint_activations(model: nn.Module) -> None:
    """Enables activation checkpointing in a transformers model."""
    named: Any = model
    enable = getattr(named, "activation_checkpointing_enable", None)
    (enable or named.gradient_checkpointing_enable)({"use_reentrant": False})


def whole_number(config: Any, name: str) -> int | None:  # noqa: ANN401 - any of transformers' configs
    """Returns a number of a model's config; None if it has none, or another one for each layer."""
    try:
        value = getattr(config, name, None)
    except RuntimeError:  # transformers refuses to read what differs between layers
        return None
    return value if type(value) is int else None
