"""Finds the modules of a model that are called with one row of a batch behind the other.

Only what is called can differ by row: a weight that the model reads without calling its module
would stay that of the base, and inputs with positions first would get the weights of other rows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.probe import find_backbone

ROWS, TOKENS = 2, 3


@torch.no_grad()
def called_by_row(model: nn.Module) -> frozenset[str]:
    """Returns the names of modules below the head whose inputs are `[B, ...]` or `[B * T, ...]`."""
    fits: dict[str, bool] = {}

    def noting(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def note(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            x = inputs[0] if inputs else None
            size = len(x) if isinstance(x, Tensor) and x.dim() else 0
            by_row = size == ROWS or (size > 0 and size % (ROWS * TOKENS) == 0)
            fits[name] = by_row and fits.get(name, True)

        return note

    hooks = [m.register_forward_pre_hook(noting(name)) for name, m in model.named_modules()]
    embedding: Any = model.get_input_embeddings()  # type: ignore[operator]
    ids_BT = torch.arange(1, 1 + ROWS * TOKENS, device=embedding.weight.device).view(ROWS, TOKENS)
    try:
        find_backbone(model)(input_ids=ids_BT % len(embedding.weight), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return frozenset(name for name, is_by_row in fits.items() if is_by_row)
