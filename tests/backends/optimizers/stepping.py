"""A tiny set of parameters, and steps on gradients that derive from the step."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from zoo.backends.base import BlockSpec, OptimizerSpec, ProjectionSpec
from zoo.backends.optimizer_spec import APOLLO, PROJECTED
from zoo.backends.torch.optimizers.axes import Axes
from zoo.backends.torch.optimizers.named import NamedOptimizer

SHAPES = {
    "model.embed_tokens.weight": (10, 6),
    "model.layers.0.self_attn.q_proj.weight": (8, 6),
    "model.layers.0.mlp.down_proj.weight": (6, 9),
    "model.layers.1.self_attn.q_proj.weight": (8, 6),
    "model.layers.1.input_layernorm.weight": (6,),
}


def spec_of(name: str) -> OptimizerSpec:
    """A specification of each optimizer, small enough for these parameters."""
    spec = OptimizerSpec(weight_decay=0.1, name=name)
    if name in PROJECTED:
        svd = ProjectionSpec(rank=2, interval=3)
        return replace(spec, projection=replace(svd, kind="random") if name in APOLLO else svd)
    return replace(spec, blocks=BlockSpec("random", interval=2)) if name == "badam" else spec


HEAD_DIM = 4
AXES = Axes(HEAD_DIM)


def make(name: str, seed: int = 0) -> NamedOptimizer:
    """An optimizer over these parameters."""
    return NamedOptimizer(parameters(seed), spec_of(name), AXES)


def parameters(seed: int = 0) -> dict[str, nn.Parameter]:
    draw = torch.Generator().manual_seed(seed)
    return {name: nn.Parameter(torch.randn(s, generator=draw)) for name, s in SHAPES.items()}


def set_gradients(learning: Mapping[str, nn.Parameter], step: int) -> None:
    """Gives each parameter that learns a gradient that depends on the step and on its name."""
    for place, parameter in enumerate(learning.values()):
        draw = torch.Generator().manual_seed(1000 * step + place)
        if parameter.requires_grad:
            parameter.grad = torch.randn(parameter.shape, generator=draw)


def take_steps(optimizer: NamedOptimizer, first: int, last: int) -> None:
    for step in range(first, last + 1):
        set_gradients(optimizer.parameters, step)
        optimizer.step(0.01, max_grad_norm=1.0)


def one_step(
    value: Tensor,
    *gradients: Tensor,
    spec: OptimizerSpec,
    lr: float = 0.1,
    layer: str = "mlp.up_proj",
    axes: Axes = AXES,
) -> Tensor:
    """The values of a single parameter after a step on each gradient, without clipping."""
    parameter = nn.Parameter(value.clone())
    optimizer = NamedOptimizer({f"model.layers.0.{layer}.weight": parameter}, spec, axes)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step(lr, max_grad_norm=1e9)
    return parameter.detach()
