"""Linear layers with LoRA as one operation, on a CPU: y = W x + s B A x.

Legend: N tokens, I inputs, O outputs, R rank.

peft makes three arrays as large as the outputs, and again as many in the backward pass: the product
of B, that times the scale, and the sum. Here both products are added in place. The numbers are the
same up to rounding.

Left out, and computed by peft as before: several adapters at once, DoRA, dropout, layers with a
bias or hooks, 8 and 4 bits, layers that are streamed or divided.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.numbers.widened import WidenedLinear, widened_gradient, widened_product

if TYPE_CHECKING:
    from peft import PeftModel


def fuse(model: "PeftModel") -> None:
    """Makes the plain LoRA layers of a model on a CPU one operation each, in place."""
    from peft.tuners import lora

    for layer in model.modules():
        if type(layer) is lora.Linear and _is_plain(layer):
            layer.forward = _Fused(layer)  # type: ignore[method-assign]


def _is_plain(layer: Any) -> bool:  # noqa: ANN401 - a layer of peft
    base = layer.get_base_layer()
    plain = type(base) in (nn.Linear, WidenedLinear) and base.bias is None
    if not plain or base.weight.device.type != "cpu" or base.weight.requires_grad:
        return False
    wide = base.weight.dtype is torch.float32 or type(base) is WidenedLinear
    return wide and not layer.lora_variant and not layer.lora_bias.get(ADAPTER)


class _Fused:
    """The forward of a layer: one operation where its adapter alone is trained, else peft's."""

    def __init__(self, layer: Any) -> None:  # noqa: ANN401
        self._layer, self._plain = layer, layer.forward

    def __call__(self, x: Tensor, *arguments: Any, **options: Any) -> Tensor:  # noqa: ANN401
        """Returns the outputs `[..., O]` for inputs `[..., I]`."""
        if arguments or options or x.dtype is not torch.float32 or not self._applies():
            plain: Tensor = self._plain(x, *arguments, **options)
            return plain
        layer = self._layer
        A_RI, B_OR = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
        scale = layer.scaling[ADAPTER]
        x_NI = x.reshape(-1, x.shape[-1])
        y_NO: Tensor = _Sum.apply(x_NI, layer.base_layer.weight, A_RI, B_OR, scale)  # type: ignore[no-untyped-call]
        # a view made outside the operation may be changed in place, as llama4 does
        return y_NO.view(*x.shape[:-1], -1)

    def _applies(self) -> bool:
        layer, base = self._layer, self._layer.base_layer
        if layer.disable_adapters or layer.merged:
            return False
        hooked = base._forward_hooks or base._forward_pre_hooks
        alone = layer.active_adapters == [ADAPTER] and not hooked
        return alone and isinstance(layer.lora_dropout[ADAPTER], nn.Identity)


class _Sum(torch.autograd.Function):
    """(inputs, frozen weight, factors, scale) -> outputs."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x_NI: Tensor,
        weight_OI: Tensor,
        A_RI: Tensor,
        B_OR: Tensor,
        scale: float,
    ) -> Tensor:
        low_NR = x_NI @ A_RI.T
        wide = weight_OI.dtype is torch.float32
        y_NO = x_NI @ weight_OI.T if wide else widened_product(x_NI, weight_OI)
        y_NO.addmm_(low_NR, B_OR.T, alpha=scale)
        ctx.save_for_backward(x_NI, low_NR, weight_OI, A_RI, B_OR)
        ctx.scale = scale
        return y_NO

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x_NI, low_NR, weight_OI, A_RI, B_OR = ctx.saved_tensors
        dy_NO = grads[0]
        dlow_NR = (dy_NO @ B_OR).mul_(ctx.scale)
        needs_x, _, needs_A, needs_B, _ = ctx.needs_input_grad
        dA_RI = dlow_NR.T @ x_NI if needs_A else None
        dB_OR = (dy_NO.T @ low_NR).mul_(ctx.scale) if needs_B else None
        if not needs_x:
            return None, None, dA_RI, dB_OR, None
        wide = weight_OI.dtype is torch.float32
        dx_NI = dy_NO @ weight_OI if wide else widened_gradient(dy_NO, weight_OI)
        dx_NI.addmm_(dlow_NR, A_RI)
        return dx_NI, None, dA_RI, dB_OR, None
