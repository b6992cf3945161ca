"""Adam-mini (arXiv:2406.16793, algorithms 1 to 3): one average of squares for several values.

They are the rows of an attention head in layers of queries and keys, and single rows elsewhere: an
output of a layer, or a token of an embedding. A vector has one average.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.backends.torch.optimizers.own import OwnOptimizer

BETAS = (0.9, 0.999)
EPSILON = 1e-8

QUERIES_AND_KEYS = re.compile(r"\.(q_proj|k_proj|query|key)\.(lora_B\.)?weight$")
"""Names of matrices whose rows are the outputs of attention heads."""


class AdamMini(OwnOptimizer):
    """AdamW with a common second moment for each group of rows.

    Args:
        groups: see `OwnOptimizer`.
        names: the name of each parameter.
        head_dim: the width of an attention head, if the model has such heads.
    """

    def __init__(
        self, groups: list[dict[str, Any]], names: Mapping[Tensor, str], head_dim: int | None
    ) -> None:
        super().__init__(groups)
        self.names, self.head_dim = names, head_dim

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Takes one step of algorithm 1."""
        blocks = self._blocks(parameter)
        if not state:
            squares = parameter.new_zeros(blocks)
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=squares)
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - BETAS[0])
        squares = gradient.square().reshape(blocks, -1).mean(1)
        state["exp_avg_sq"].lerp_(squares, 1 - BETAS[1])
        first, second = (1 - beta ** state["step"] for beta in BETAS)
        divisors = (state["exp_avg_sq"] / second).sqrt_().add_(EPSILON)
        direction = state["exp_avg"].reshape(blocks, -1) / divisors[:, None]
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(direction.view_as(parameter), alpha=-group["lr"] / first)

    def _blocks(self, parameter: Tensor) -> int:
        """Returns the number of groups of rows."""
        if parameter.dim() < 2:
            return 1
        rows = parameter.shape[0]
        in_heads = QUERIES_AND_KEYS.search(self.names[parameter]) is not None
        together = self.head_dim if self.head_dim and in_heads else 1
        return rows if rows % together else rows // together
