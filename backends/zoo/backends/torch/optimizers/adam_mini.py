"""Adam-mini (arXiv:2406.16793, algorithms 1 to 3): one average of squares for several values.

They are those of an attention head in layers of queries and keys, and those of a single output
elsewhere: of a layer, of one expert, or a token of an embedding. A vector has one average.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.backends.torch.optimizers.axes import Axes
from zoo.backends.torch.optimizers.own import OwnOptimizer

BETAS = (0.9, 0.999)
EPSILON = 1e-8

QUERIES_AND_KEYS = re.compile(r"\.(q_proj|k_proj|query|key)\.(lora_B\.)?weight$")
"""Names of matrices whose rows are the outputs of attention heads."""


class AdamMini(OwnOptimizer):
    """AdamW with a common second moment for each output, or for those of a head.

    Args:
        groups: see `OwnOptimizer`.
        names: the name of each parameter.
        axes: where the outputs of parameters are.
    """

    def __init__(
        self, groups: list[dict[str, Any]], names: Mapping[Tensor, str], axes: Axes
    ) -> None:
        super().__init__(groups)
        self.names, self.axes = names, axes

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Takes one step of algorithm 1."""
        name = self.names[parameter]
        blocks = self._blocks(name, parameter)
        if not state:
            squares = parameter.new_zeros(blocks)
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=squares)
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - BETAS[0])
        squares = self._outputs_first(name, gradient.square()).reshape(blocks, -1).mean(1)
        state["exp_avg_sq"].lerp_(squares, 1 - BETAS[1])
        first, second = (1 - beta ** state["step"] for beta in BETAS)
        divisors = (state["exp_avg_sq"] / second).sqrt_().add_(EPSILON)
        average = self._outputs_first(name, state["exp_avg"])
        direction = (average.reshape(blocks, -1) / divisors[:, None]).view(average.shape)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(self._outputs_first(name, direction), alpha=-group["lr"] / first)

    def _outputs_first(self, name: str, value: Tensor) -> Tensor:
        """Returns a view of values with outputs before inputs; twice, it is the first one again."""
        return value.mT if name in self.axes.outputs_last else value

    def _blocks(self, name: str, parameter: Tensor) -> int:
        """Returns the number of groups of values with a common second moment."""
        if parameter.dim() < 2:
            return 1
        shape = self._outputs_first(name, parameter).shape
        rows = shape[0] * shape[1] if name in self.axes.stacked else shape[0]
        in_heads = QUERIES_AND_KEYS.search(name) is not None
        together = self.axes.head_dim if self.axes.head_dim and in_heads else 1
        return rows if rows % together else rows // together
