"""The base of the optimizers that are written here: a loop over the parameters with a gradient."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor


class OwnOptimizer(torch.optim.Optimizer):
    """An optimizer that steps each parameter by itself.

    Args:
        groups: torch's groups, with `params`, `lr_scale` and `weight_decay`.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, {"lr": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Updates each parameter that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = cast("dict[str, Any]", self.state[parameter])
                    self.update(parameter, parameter.grad, state, group)

    @abstractmethod
    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Changes a parameter and its state in place; the state is empty before its first step."""
