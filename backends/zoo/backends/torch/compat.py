"""Compatibility with torch and transformers older than those that zoo-gym requires.

The GPU command runs on machines whose versions are not ours to choose; an installed zoo-gym has
the required ones.
"""

from typing import Any

import torch
from torch import nn

MIXED_PRODUCTS = "dtype_out" in torch.ops.aten.mm.overloads()  # type: ignore[no-untyped-call]
"""Whether a GPU's 16-bit product can be had in float32; torch 2.8 can."""


def reads_slices() -> bool:
    """Returns whether transformers takes tensors that are not read yet; version 5 does."""
    import transformers

    return int(transformers.__version__.partition(".")[0]) >= 5


def checkpoint_activations(model: nn.Module) -> None:
    """Has a transformers model compute activations again in the backward pass."""
    named: Any = model
    enable = getattr(named, "activation_checkpointing_enable", None)
    (enable or named.gradient_checkpointing_enable)({"use_reentrant": False})
