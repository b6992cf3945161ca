"""Frozen linear layers with 8-bit weights: codes of bitsandbytes, products of our own.

Legend: N tokens, I inputs, O outputs.

The codes are those of LLM.int8() (arXiv:2208.07339): each row of a weight divided by its largest
value, in 255 steps. Its products are not used: they round the activations as well, by columns of
the whole batch, so that a row depends on the others, and on a CPU only outside of training. Here
the codes are widened, which is exact in bf16 and float32, and multiplied in the type of the model.
"""

from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.numbers.widened import widened_gradient, widened_product
from zoo.core.errors import InputError

LARGEST = 127.0


class Int8Linear(nn.Linear):
    """A frozen linear layer whose weight is int8 codes with a float32 scale per output.

    Args:
        codes_OI: the codes.
        absmax_O: the largest absolute weight of each row.
        bias: the bias or None.
    """

    def __init__(self, codes_OI: Tensor, absmax_O: Tensor, bias: nn.Parameter | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = codes_OI.shape
        self.weight = nn.Parameter(codes_OI, requires_grad=False)
        self.register_buffer("scale", absmax_O.float() / LARGEST, persistent=False)
        self.register_parameter("bias", bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Returns `input @ weight.T + bias` in the type of the input."""
        scale: Any = self.scale
        if torch.is_grad_enabled() and input.requires_grad:
            y: Tensor = _Product.apply(input, self.weight, scale)  # type: ignore[no-untyped-call]
        else:
            y = _product(input, self.weight, scale)
        return y if self.bias is None else y + self.bias


def check_codes(model: nn.Module) -> None:
    """Checks that peft can read the weights of a model: it knows codes of 4 bits, not of 8.

    Raises:
        InputError: a layer is in 8 bits.
    """
    name = next((name for name, m in model.named_modules() if isinstance(m, Int8Linear)), None)
    if name is not None:
        raise InputError(
            f"DoRA and PiSSA read weights: expected 4, 16 or 32 bits, got 8 in {name!r}",
            hint="quantization_bit=4, or plain LoRA",
            code="torch.codes_not_readable",
        )


class _Product(torch.autograd.Function):
    """The product with frozen codes, with a gradient for the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, codes_OI: Tensor, scale_O: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(codes_OI, scale_O)
        return _product(x, codes_OI, scale_O)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:  # noqa: ANN401
        codes_OI, scale_O = ctx.saved_tensors
        scaled = (grads[0] * scale_O).to(grads[0].dtype)
        if scaled.dtype is torch.float32:
            return widened_gradient(scaled, codes_OI), None, None
        return scaled @ codes_OI.to(scaled.dtype), None, None


def _product(x: Tensor, codes_OI: Tensor, scale_O: Tensor) -> Tensor:
    if x.dtype is torch.float32:
        return widened_product(x, codes_OI) * scale_O
    return (x @ codes_OI.to(x.dtype).T * scale_O).to(x.dtype)
