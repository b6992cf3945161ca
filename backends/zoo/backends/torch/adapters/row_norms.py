"""Norms whose weights and biases differ by row of a batch.

Legend: B rows, T positions, D size of a norm.

A norm's own forward computes with a weight [B, 1, D] in the place of its weight [D] as it does with
that, if it multiplies by it as any Python code does; `differs` tests it. torch's own kernels
take one weight: they normalise alone, and weight and bias are applied behind them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

KERNELS = (nn.LayerNorm.forward, nn.RMSNorm.forward)
"""Forward passes that take no weight of more dimensions."""


class RowNorm:
    """A norm in which rows have weights of their own while it is active.

    Args:
        module: the norm; it gets hooks.

    Attributes:
        is_active: whether the next batch consists of the rows that were set.
    """

    def __init__(self, module: nn.Module) -> None:
        self._base = dict(module.named_parameters(recurse=False))
        # what `module.weight` reads; the attribute itself takes no plain tensor
        self._read: dict[str, Any] = vars(module)["_parameters"]
        self._is_kernel = type(module).forward in KERNELS
        self._by_row: dict[str, Tensor] = {}
        self._placed: dict[str, Tensor] = {}
        self.is_active = False
        self._hooks: list[Any] = [
            module.register_forward_pre_hook(self._place),
            module.register_forward_hook(self._restore, always_call=True),
        ]

    def close(self) -> None:
        """Removes the hooks."""
        for hook in self._hooks:
            hook.remove()

    def set(self, changes: Sequence[Mapping[str, Tensor]]) -> None:
        """Sets what each row adds to the parameters, float32 by their names in the norm."""
        self._by_row = {}
        for name in dict.fromkeys(name for change in changes for name in change):
            base_D = self._base[name]
            rows_BD = base_D.detach().float().repeat(len(changes), 1)
            for row, change in enumerate(changes):
                if name in change:
                    rows_BD[row] += change[name]
            self._by_row[name] = rows_BD.to(base_D.dtype)

    def _place(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if not self.is_active:
            return
        self._placed = {name: _beside(rows, inputs[0]) for name, rows in self._by_row.items()}
        taken = dict.fromkeys(self._base) if self._is_kernel else self._placed
        self._read.update(taken)

    def _restore(self, _: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        if not self.is_active:
            return None
        self._read.update(self._base)
        if not self._is_kernel:
            return None
        values = {**self._base, **self._placed}
        scaled = output * values["weight"]
        return scaled + values["bias"] if "bias" in values else scaled


def _beside(rows_BD: Tensor, x: Tensor) -> Tensor:
    """Returns weights in a shape that goes with inputs `[B, ..., D]` or `[B * T, ..., D]`."""
    rows, size = rows_BD.shape
    if x.shape[0] != rows:
        rows_BD = rows_BD.repeat_interleave(x.shape[0] // rows, 0)
    return rows_BD.view(-1, *[1] * (x.dim() - 2), size)


def is_norm(module: nn.Module) -> bool:
    """Returns whether a module has a weight of one dimension, perhaps a bias, and nothing else."""
    parameters = {name: value for name, value in module.named_parameters() if value is not None}
    vectors = all(value.dim() == 1 for value in parameters.values())
    return vectors and {"weight"} <= parameters.keys() <= {"weight", "bias"}


@torch.no_grad()
def differs(module: nn.Module) -> bool:
    """Returns whether a norm computes something else by row than with the weights of each alone."""
    parameters = dict(module.named_parameters())
    weight = parameters["weight"]
    random = torch.Generator(weight.device).manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, device=weight.device, dtype=torch.float32)

    x_BTD = drawn(2, 3, len(weight)).to(weight.dtype)
    changes = [{name: drawn(len(weight)) for name in parameters} for _ in range(2)]
    norm = RowNorm(module)
    try:
        norm.set(changes)
        norm.is_active = True
        by_row_BTD = module(x_BTD)
        norm.is_active = False
        alone: list[Tensor] = []
        for row, change in enumerate(changes):
            merged = {
                name: (value.float() + change[name]).to(value.dtype)
                for name, value in parameters.items()
            }
            alone.append(torch.func.functional_call(module, merged, (x_BTD[row : row + 1],)))
    except (RuntimeError, TypeError, ValueError, AttributeError):  # it takes one weight alone
        return True
    finally:
        norm.close()
    tolerance = 1e-5 if weight.dtype is torch.float32 else 2e-2
    return not torch.allclose(by_row_BTD, torch.cat(alone), rtol=tolerance, atol=tolerance)
