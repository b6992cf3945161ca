"""Divides a model among processes by torch's FSDP2: each keeps a share of every weight.

The weights of a layer are gathered when it is computed and freed afterwards; those outside of
layers (embedding, head, last norm, value head) are one more group. Each pass is an exchange, so
that all processes make as many, in the same order. The gradients of a pass are added up over the
processes as soon as they are known, and each process keeps those of its share.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch.distributed as dist
from torch import nn

from zoo.backends.torch.loss import LossModule
from zoo.backends.torch.parallel.group import Group, lost_in_a_pass, lost_process
from zoo.backends.torch.streaming.layers import find_layers
from zoo.core.errors import InputError

T = TypeVar("T")


class _Passes(nn.Module):
    """The root of a divided model: what runs in its forward may use every weight."""

    def __init__(self, module: LossModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[], T]) -> T:
        return work()


class Divided:
    """The weights of a model as shares.

    Args:
        module: the model, whole, in the memory of the host; its weights become shares.
        ranks: the processes.
        device: the device of the shares.

    Raises:
        InputError: the model has no layers, or one that does not use all its weights.
    """

    def __init__(self, module: LossModule, ranks: Group, device: str) -> None:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        group: Any = dist.group.WORLD if ranks.tensors is None else ranks.tensors
        mesh = DeviceMesh.from_group(group, device)
        self.ranks = ranks
        passes: Any = _Passes(module)
        for layer in layers_of(module):
            fully_shard(layer, mesh=mesh, reshard_after_forward=True)
        # it is needed again as soon as the gradient is computed
        fully_shard(passes, mesh=mesh, reshard_after_forward=False)
        self._root = passes
        self._groups: list[Any] = [p for p in passes.modules() if hasattr(p, "reshard")]
        for part in self._groups:
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(enable=True)

    def run(self, work: Callable[[], T], *, learns: bool = False) -> T:
        """Returns what `work`, a pass of the model, returns. Collective.

        Args:
            work: the pass.
            learns: whether its gradient is computed afterwards, which frees what is gathered.
        """
        with lost_in_a_pass(self.ranks):
            result: T = self._root(work)
        if not learns:
            self._root.reshard()
        return result

    @contextmanager
    def gathered(self) -> Generator[None]:
        """Keeps all weights whole inside the block, where passes are no exchanges. Collective."""
        with lost_process(self.ranks):
            for part in self._groups:
                part.unshard()
        self._root.set_reshard_after_forward(reshard_after_forward=False)
        try:
            yield
        finally:
            self._root.set_reshard_after_forward(reshard_after_forward=True)
            self._root.set_reshard_after_forward(reshard_after_forward=False, recurse=False)
            for part in self._groups:
                part.reshard()


def layers_of(module: LossModule) -> list[nn.Module]:
    """Returns the layers of a model, each of which is gathered by itself.

    Raises:
        InputError: there are none, or one has a list of modules, such as experts, of which a row
            uses some.
    """
    name, layers = type(module.model).__name__, find_layers(module.model)
    if not layers:
        raise InputError(
            f"sharding: expected a model with layers, got {name}", code="torch.cannot_be_divided"
        )
    for layer in layers:
        if any(isinstance(part, nn.ModuleList) for part in layer.modules()):
            raise InputError(
                f"sharding: expected layers whose every weight takes part in each pass, got "
                f"{name}, whose layers have lists of modules",
                hint="sharding=none",
                code="torch.cannot_be_divided",
            )
    return layers
