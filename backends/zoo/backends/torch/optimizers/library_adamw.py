"""AdamW with state in 8 bits (arXiv:2110.02861) or in paged memory, bitsandbytes', on CUDA.

Layers of blocks have 8-bit state; embeddings, heads and vectors keep 32 bits, as transformers sets
it for embeddings. Paged state is in memory that the driver moves to the host when the GPU is full.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from zoo.backends.torch.quantized.library import import_bitsandbytes, require_library

BETAS = (0.9, 0.999)

CONSTANT = ("qmap1", "qmap2")
"""The parts of its state that are the same tables for every parameter; they are not saved."""


def library_adamw(groups: list[dict[str, Any]], *, bits: int, paged: bool) -> Optimizer:
    """Returns the library's AdamW over groups that have a `lr_scale`.

    Raises:
        NotAvailableError: bitsandbytes is not installed.
    """
    optim = require_library("optim: AdamW in 8 bits or paged memory").optim
    options: dict[str, Any] = {"lr": 0.0, "betas": BETAS, "is_paged": paged}
    kind = optim.AdamW8bit if bits == 8 else optim.AdamW32bit
    optimizer: Optimizer = kind(groups, **options)
    return optimizer


def is_librarys(optimizer: Optimizer) -> bool:
    """Returns whether an optimizer is bitsandbytes'."""
    return type(optimizer).__module__.startswith("bitsandbytes.")


def restore(optimizer: Any, parameter: Tensor, parts: Mapping[str, Tensor]) -> None:  # noqa: ANN401
    """Restores the state of one parameter, in the memory that the library makes for it.

    Args:
        optimizer: the library's.
        parameter: the parameter.
        parts: the saved parts of its state, by name.
    """
    assert import_bitsandbytes() is not None
    for group_place, group in enumerate(optimizer.param_groups):
        for index, other in enumerate(group["params"]):
            if other is parameter:
                optimizer.init_state(group, parameter, group_place, index)
    state = optimizer.state[parameter]
    for part, value in parts.items():
        if torch.is_tensor(state[part]):
            state[part].copy_(value)
        else:
            state[part] = int(value)
