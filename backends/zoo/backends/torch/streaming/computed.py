"""Linear layers whose weights are computed when they are used, and not kept.

A weight is computed for the forward pass and again for the backward pass, which needs it for the
gradient of the inputs; the gradient of the weight is passed on as soon as it is known. So one
weight and one gradient are in memory at a time, and the base stays in its files. Where activations
are recomputed, a layer's weights are kept from that until its backward pass, which follows.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.probe import PROBE_TOKENS, find_backbone

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float32]

Weights = Callable[[str], "FloatArray | None"]
Receive = Callable[[str, "FloatArray"], None]


def compute_linear(
    model: nn.Module, weights: Weights, receive: Receive, *, recomputes: bool
) -> set[str]:
    """Replaces the products of the backbone's linear layers, and returns their weights' names.

    A layer that a pass does not call keeps its weight: its model reads the weight itself, as Mamba
    does, or it is an expert that no probed token chose.

    Args:
        model: a frozen model.
        weights: returns a weight by its parameter's name, float32 in its shape; None for one that
            is as in the model.
        receive: called with the name and the gradient of one pass; it may keep neither.
        recomputes: whether the model recomputes its activations.
    """
    used = _called(find_backbone(model))
    names: set[str] = set()
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear) and module in used:
            name = f"{path}.weight"
            layer = _Layer(name, module, weights, receive, keeps=recomputes)
            replaced: Any = module
            replaced.forward = partial(_forward, module, layer)
            names.add(name)
    return names


def _called(backbone: nn.Module) -> set[nn.Linear]:
    """Returns the plain linear layers that a pass over a few tokens calls."""
    used: set[nn.Linear] = set()

    def use(module: Any, _inputs: object) -> None:  # noqa: ANN401
        used.add(module)

    layers = [module for module in backbone.modules() if type(module) is nn.Linear]
    hooks = [layer.register_forward_pre_hook(use) for layer in layers]
    try:
        with torch.no_grad():
            backbone(input_ids=torch.arange(PROBE_TOKENS)[None], use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return used


class _Layer:
    def __init__(
        self, name: str, module: nn.Linear, weights: Weights, receive: Receive, *, keeps: bool
    ) -> None:
        self.name, self._module, self._weights, self._receive = name, module, weights, receive
        self.keeps = keeps

    def weight(self) -> Tensor:
        values = self._weights(self.name)
        return self._module.weight.float() if values is None else torch.from_numpy(values)

    def send(self, gradient: Tensor) -> None:
        self._receive(self.name, gradient.numpy())


def _forward(module: nn.Linear, layer: _Layer, inputs: Tensor) -> Tensor:
    product: Tensor = _Product.apply(inputs, layer)  # type: ignore[no-untyped-call]
    return product if module.bias is None else product + module.bias


class _Product(torch.autograd.Function):
    """inputs @ weight.T, where neither the weight nor its gradient is kept.

    The inputs have a gradient, because the embedding is trained.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, layer: _Layer) -> Tensor:  # noqa: ANN401
        weight = layer.weight()
        # recomputing discards what the first forward pass saves
        ctx.save_for_backward(inputs, weight if layer.keeps else None)
        ctx.layer = layer
        return nn.functional.linear(inputs, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # noqa: ANN401
        inputs, weight = ctx.saved_tensors
        (above,) = grads
        ctx.layer.send(above.flatten(0, -2).T @ inputs.flatten(0, -2))
        return above @ (ctx.layer.weight() if weight is None else weight), None
