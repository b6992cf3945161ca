"""DoRA: low-rank directions with trained magnitudes (arXiv:2402.09353, eq. 5).

W' = m (W + BA) / |W + BA|, with one magnitude and one norm per output of a layer. As in section
4.3, the norm is a constant in the backward pass. The layers are peft's.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.adapters.oft import with_rotations
from zoo.backends.torch.streaming.layers import release

if TYPE_CHECKING:
    from peft import PeftModel


@torch.no_grad()
def set_magnitudes(model: "PeftModel") -> None:
    """Sets each magnitude to the norm that the layer computes in float32, so that they cancel.

    peft rounds them to the type of the base: in bf16 the adapter would start as another model.
    """
    from peft.utils.integrations import dequantize_module_weight

    for layer, magnitude in _layers(model):
        weight: Tensor = dequantize_module_weight(layer.get_base_layer())
        norm = magnitude.get_weight_norm(weight.float(), torch.zeros(()).to(weight.device), 1.0)
        magnitude.weight.data = norm
        release(model.get_base_model(), layer.get_base_layer().weight)


def _layers(model: nn.Module) -> Iterator[tuple[Any, Any]]:
    """Yields each layer that has magnitudes, with them."""
    for layer in model.modules():
        magnitudes: Any = getattr(layer, "lora_magnitude_vector", None)
        if magnitudes is not None and ADAPTER in magnitudes:
            yield layer, magnitudes[ADAPTER]


@torch.no_grad()
def merged_weight(weight: Tensor, layer: Any) -> Tensor:  # noqa: ANN401
    """Returns a layer's weight with its adapter, in float32 on the CPU.

    Args:
        weight: the weight without it.
        layer: peft's layer, or None for a weight without an adapter.
    """
    value: Tensor = weight.detach().float().cpu()
    if layer is None:
        return value.contiguous()
    if hasattr(layer, "oft_R"):
        return with_rotations(value, layer)
    for name in layer.active_adapters:
        value = value + layer.get_delta_weight(name).float().cpu()
    magnitudes: Any = getattr(layer, "lora_magnitude_vector", None)
    if magnitudes is None or ADAPTER not in magnitudes:
        return value.contiguous()
    inputs = 0 if magnitudes[ADAPTER].fan_in_fan_out else 1
    scale: Tensor = magnitudes[ADAPTER].weight.float().cpu().unsqueeze(inputs)
    norm: Tensor = torch.linalg.vector_norm(value, dim=inputs, keepdim=True)
    return (value * (scale / norm)).contiguous()
