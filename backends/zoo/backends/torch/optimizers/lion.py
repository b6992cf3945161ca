"""Lion (arXiv:2302.06675, algorithm 2): the sign of an average gradient, with one state."""

from typing import Any

import torch
from torch import Tensor

from zoo.backends.torch.optimizers.own import OwnOptimizer

BETAS = (0.9, 0.99)


class Lion(OwnOptimizer):
    """Steps each value by the learning rate, up or down, with decoupled weight decay."""

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Takes one step: w -= lr (sign(b1 m + (1 - b1) g) + decay w), m = b2 m + (1 - b2) g."""
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
        average = state["exp_avg"]
        direction = torch.lerp(gradient, average, BETAS[0]).sign_()
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(direction, alpha=-group["lr"])
        average.lerp_(gradient, 1 - BETAS[1])
