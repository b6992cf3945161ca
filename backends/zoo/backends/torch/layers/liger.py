"""Liger's kernels for norms and gated layers (arXiv:2410.10989), on CUDA.

Only these: the loss is computed chunk by chunk here already, and Liger's rotary positions replace a
function of the module that other models in the process use too. So do its own patches, which is why
these change the layers of one model alone.
"""

from importlib import import_module
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.libraries.liger import require_liger
from zoo.backends.torch.probe import probe_ids, same_logits
from zoo.core.errors import InputError

GATED = ("gate_proj", "up_proj", "down_proj")
SILU = ("SiLU", "SiLUActivation")


@torch.no_grad()
def use_liger(folder: Path, model: Any) -> int:  # noqa: ANN401
    """Replaces the kernels of a model on CUDA and returns the number of layers that changed.

    Raises:
        NotAvailableError: Liger's kernels are not installed.
        InputError: the model has no such layers, or other logits with the kernels.
    """
    require_liger()
    ids_BT = probe_ids(model)
    before_TV = model(input_ids=ids_BT, use_cache=False).logits[0].float()
    changed = replace_kernels(model)
    if not changed:
        raise InputError(
            f"{folder}: enable_liger_kernel: {type(model).__name__} has no layers that Liger's "
            "kernels replace: expected RMSNorm or SwiGLU",
            hint="leave enable_liger_kernel out",
            code="torch.no_liger_kernels",
        )
    after_TV = model(input_ids=ids_BT, use_cache=False).logits[0].float()
    if not same_logits(after_TV, before_TV, next(model.parameters()).dtype):
        difference = float((after_TV - before_TV).abs().max())
        raise InputError(
            f"{folder}: enable_liger_kernel: with Liger's kernels the logits of "
            f"{type(model).__name__} differ by {difference:.3g}",
            hint="leave enable_liger_kernel out",
            code="torch.liger_differs",
        )
    return changed


def replace_kernels(model: nn.Module) -> int:
    """Replaces the forward passes of a model's RMSNorm and SwiGLU layers; returns their number."""
    ops = import_module("liger_kernel.ops")
    norm, gate = ops.LigerRMSNormFunction, ops.LigerSiLUMulFunction

    def normed(layer: Any, hidden_BTD: Tensor) -> Tensor:  # noqa: ANN401
        in_place = False  # the gradient of the output may be needed elsewhere
        result: Tensor = norm.apply(
            hidden_BTD, layer.weight, layer.variance_epsilon, 0.0, "llama", in_place
        )
        return result

    def gated(layer: Any, hidden_BTD: Tensor) -> Tensor:  # noqa: ANN401
        product = gate.apply(layer.gate_proj(hidden_BTD), layer.up_proj(hidden_BTD))
        result: Tensor = layer.down_proj(product)
        return result

    changed = 0
    for module in model.modules():
        layer: Any = module
        if _is_norm(layer):
            layer.forward = MethodType(normed, layer)
        elif all(hasattr(layer, name) for name in GATED) and _is_silu(layer):
            layer.forward = MethodType(gated, layer)
        else:
            continue
        changed += 1
    return changed


def _is_norm(layer: Any) -> bool:  # noqa: ANN401
    """Returns whether a layer is Llama's norm; those with an offset have another attribute."""
    named = type(layer).__name__.endswith("RMSNorm")
    return named and hasattr(layer, "variance_epsilon") and hasattr(layer, "weight")


def _is_silu(layer: Any) -> bool:  # noqa: ANN401
    return type(getattr(layer, "act_fn", None)).__name__ in SILU
