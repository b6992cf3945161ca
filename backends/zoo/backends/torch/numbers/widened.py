"""Frozen 16-bit weights that are multiplied in float32, widened block by block.

Legend: N tokens, I inputs, O outputs.

A processor without bf16 arithmetic takes five times as long for a bf16 product as for a float32
one, and a hundred times as long for its gradient. Here the weights stay in 16 bits in memory; each
product copies a block of rows to float32, in a buffer that fits in a cache, and multiplies that.
The model around these layers computes in float32, so its results are those of float32 weights.

Not covered, and float32 in memory: special layers (subclasses of `nn.Linear`, stacked experts),
small weights, and whole models that multiply weights outside of their layers (Mamba). Trained
weights are never widened.
"""

import ctypes
import functools
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.core import Isa, available_isas, dense_product

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_WEIGHTS = 1 << 19
"""Weights that are widened at once: 2 MB of float32, which fit in the L2 or L3 cache."""

CORE_TOKENS = 6
"""Up to this many tokens, the Rust core reads the bf16 weights directly, once for all of them."""

_buffers = threading.local()


def widen(model: nn.Module) -> None:
    """Makes a model with 16-bit weights compute in float32, in place.

    Plain linear layers and embeddings keep their 16-bit weights; every other parameter and buffer
    becomes float32. Shared weights stay shared.
    """
    replaced: dict[nn.Module, nn.Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, replaced.setdefault(child, WidenedLinear(child)))
            elif isinstance(child, nn.Embedding) and child not in replaced:
                replaced[child] = child
                child.register_forward_hook(_float_output)
    narrow = {id(layer.weight) for layer in replaced.values()}
    for module in model.modules():
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        for tensor in tensors:
            if tensor.is_floating_point() and id(tensor) not in narrow:
                tensor.data = tensor.data.float()


@torch.no_grad()
def computes(model: nn.Module) -> bool:
    """Returns whether a widened model runs; models that use weights outside of layers do not."""
    vocabulary = model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    ids_BT = torch.arange(1, 9)[None] % vocabulary
    try:
        model(input_ids=ids_BT, use_cache=False)
    except RuntimeError as error:
        if "dtype" in str(error):
            return False
        raise
    return True


def _float_output(_module: nn.Module, _given: object, rows: Tensor) -> Tensor:
    return rows.float()


class WidenedLinear(nn.Linear):
    """A frozen linear layer with a 16-bit weight and float32 products."""

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self.train(layer.training)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Returns `input @ weight.T + bias` in float32."""
        if self.weight.dtype is torch.float32:
            return super().forward(input)
        x = input.float()
        if torch.is_grad_enabled() and x.requires_grad:
            y: Tensor = _Product.apply(x, self.weight)  # type: ignore[no-untyped-call]
        else:
            y = widened_product(x, self.weight)
        return y if self.bias is None else y + self.bias


class _Product(torch.autograd.Function):
    """The product with a frozen weight, with a gradient for the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_OI: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(weight_OI)
        return widened_product(x, weight_OI)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # noqa: ANN401
        (weight_OI,) = ctx.saved_tensors
        return widened_gradient(grads[0], weight_OI), None


def widened_product(x: Tensor, weight_OI: Tensor) -> Tensor:
    """Returns `x @ weight.T` in float32.

    Args:
        x: float32 `[..., I]`.
        weight_OI: 16-bit weights.
    """
    outputs, inputs = weight_OI.shape
    x_NI = x.reshape(-1, inputs)
    y_NO = x_NI.new_empty(x_NI.shape[0], outputs)
    if x_NI.shape[0] <= CORE_TOKENS and _core_reads(x_NI, weight_OI):
        _few_tokens(x_NI, weight_OI, y_NO)
    else:
        for part, rows in blocks(weight_OI):
            torch.mm(x_NI, rows.T, out=y_NO[:, part])
    return y_NO.view(*x.shape[:-1], outputs)


def widened_gradient(grad: Tensor, weight_OI: Tensor) -> Tensor:
    """Returns `grad @ weight` in float32: the gradient of the input of `widened_product`.

    Args:
        grad: float32 `[..., O]`.
        weight_OI: 16-bit weights.
    """
    outputs, inputs = weight_OI.shape
    grad_NO = grad.reshape(-1, outputs)
    total_NI = grad_NO.new_zeros(grad_NO.shape[0], inputs)
    for part, rows in blocks(weight_OI):
        total_NI.addmm_(grad_NO[:, part], rows)
    return total_NI.view(*grad.shape[:-1], inputs)


def blocks(weight_OI: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yields the weight's rows in float32, block by block; a block is valid until the next one."""
    outputs, inputs = weight_OI.shape
    height = min(outputs, max(1, BLOCK_WEIGHTS // inputs))
    buffer = _buffer(height * inputs, weight_OI.device).view(height, inputs)
    for start in range(0, outputs, height):
        part = slice(start, min(start + height, outputs))
        yield part, buffer[: part.stop - start].copy_(weight_OI[part])


def _buffer(size: int, device: torch.device) -> Tensor:
    """Returns a buffer for `size` values, reused within each thread."""
    buffer: Tensor | None = getattr(_buffers, "kept", None)
    if buffer is None or buffer.numel() < size or buffer.device != device:
        buffer = torch.empty(max(size, BLOCK_WEIGHTS), dtype=torch.float32, device=device)
        _buffers.kept = buffer
    return buffer[:size]


def _core_reads(x_NI: Tensor, weight_OI: Tensor) -> bool:
    """Returns whether the core supports these inputs: contiguous bf16 weights on the CPU."""
    is_on_cpu = x_NI.device.type == "cpu" and x_NI.shape[0] > 0
    return is_on_cpu and weight_OI.dtype is torch.bfloat16 and weight_OI.is_contiguous()


def _few_tokens(x_NI: Tensor, weight_OI: Tensor, y_NO: Tensor) -> None:
    isa, threads = core_isa(), torch.get_num_threads()
    words = _words(weight_OI.data_ptr(), *weight_OI.shape)
    tokens = x_NI.detach().contiguous().numpy()
    dense_product(tokens, words, out=y_NO.numpy(), isa=isa, threads=threads)


@functools.lru_cache(maxsize=1024)
def _words(address: int, outputs: int, inputs: int) -> "NDArray[np.uint16]":
    """Returns the 16-bit words at an address, which the caller keeps in memory during the product.

    The array does not own them: weights that leave memory are freed, and a divided model can free
    its own after a pass, which `Tensor.numpy` would forbid. Making it takes as long as a small
    product, so it is kept for the next token.
    """
    import numpy as np

    memory = (ctypes.c_uint16 * (outputs * inputs)).from_address(address)
    return np.frombuffer(memoryview(memory), np.uint16).reshape(outputs, inputs)


def core_isa() -> Isa | None:
    """Returns the core's instruction set, which respects a limit set for torch."""
    limited = torch.backends.cpu.get_cpu_capability() == "AVX2"
    return "avx2" if limited and "avx2" in available_isas() else None
