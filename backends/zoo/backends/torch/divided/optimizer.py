"""An optimizer over shares: for those that change each value by itself.

It steps this process's rows of each parameter; the norm of the gradient is that of all processes.
A saved state is whole and has the names and shapes of one process's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backends.base import OptimizerSpec, StepInfo
from zoo.backends.ranks import Ranks
from zoo.backends.torch.optimizers.named import NamedOptimizer
from zoo.backends.torch.parallel.shares import own_part, share_of, whole


class DividedOptimizer(NamedOptimizer):
    """`NamedOptimizer` over the shares of parameters.

    Args:
        parameters: the divided parameters, by canonical name.
        spec: the optimizer, one of `ELEMENTWISE`.
        ranks: the processes.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec, ranks: Ranks
    ) -> None:
        self.divided, self.ranks = dict(parameters), ranks
        self._whole: dict[str, Tensor] | None = None
        super().__init__({k: nn.Parameter(own_part(p)) for k, p in parameters.items()}, spec)

    def step(self, lr: float, max_grad_norm: float) -> StepInfo:
        """Steps the shares by the gradients that the passes have added up. Collective."""
        for name, parameter in self.divided.items():
            gradient = parameter.grad
            self.parameters[name].grad = None if gradient is None else own_part(gradient)
        return super().step(lr, max_grad_norm)

    def clear(self) -> None:
        """Drops the gradient."""
        super().clear()
        for parameter in self.divided.values():
            parameter.grad = None

    def norm_of(self, gradients: Sequence[Tensor]) -> Tensor:
        """Returns the norm of the gradient over all shares. Collective."""
        local = super().norm_of(gradients).double() ** 2
        total = self.ranks.total({"squares": float(local)})["squares"]
        return torch.tensor(total).sqrt().to(gradients[0].device, torch.float32)

    def has_changed(self, fingerprint: Tensor) -> bool:
        """Returns whether a value has changed in any share. Collective."""
        local = super().has_changed(fingerprint)
        return any(flag == b"1" for flag in self.ranks.gather_bytes(b"1" if local else b"0"))

    def collect(self) -> None:
        """Gathers the whole state for `save`, in the first process. Collective."""
        collected: dict[str, Tensor] = {}
        for key, value in super().tensors().items():
            name = key.rpartition("/")[0]
            joined = self._joined(self.divided[name], value) if value.dim() else value
            if self.ranks.is_first:
                collected[key] = joined.cpu()
        self._whole = collected

    def release(self) -> None:
        """Frees what `collect` has gathered."""
        self._whole = None

    def tensors(self) -> dict[str, Tensor]:
        """Returns the whole state by name, after `collect`."""
        assert self._whole is not None
        return self._whole

    def own_state(self, value: Tensor) -> Tensor:
        """Returns this process's share of a part of a state."""
        return share_of(value, self.ranks.rank, self.ranks.size)

    def _joined(self, parameter: nn.Parameter, share: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor

        like: Any = parameter
        divided = DTensor.from_local(
            share.to(like.device),
            like.device_mesh,
            like.placements,
            shape=like.shape,
            stride=like.stride(),
        )
        return whole(divided)
