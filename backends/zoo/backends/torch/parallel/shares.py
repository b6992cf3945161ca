"""Shares of tensors: which rows of a divided parameter a process has.

A parameter is divided along its first dimension, in pieces of equal length but for the last ones,
which may be shorter or empty, as `torch.chunk` cuts it.
"""

from typing import Any

import torch
from torch import Tensor, nn


def is_divided(tensor: Tensor) -> bool:
    """Returns whether a tensor is a process's share of a larger one, torch's `DTensor`."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """Returns the whole of a tensor, without a gradient. Collective if it is divided."""
    plain: Any = tensor.detach()
    full: Tensor = plain.full_tensor() if is_divided(plain) else plain
    return full


def own_part(tensor: Tensor) -> Tensor:
    """Returns this process's part of a tensor, in the same memory."""
    plain: Any = tensor.detach()
    local: Tensor = plain.to_local() if is_divided(plain) else plain
    return local


def share_of(tensor: Tensor, rank: int, size: int) -> Tensor:
    """Returns the part of a whole tensor that a process has; a number is not divided.

    >>> [share_of(torch.arange(3), rank, 2).tolist() for rank in range(2)]
    [[0, 1], [2]]
    >>> share_of(torch.ones(1, 4), 1, 2).shape
    torch.Size([0, 4])
    """
    if tensor.dim() == 0:
        return tensor
    parts = torch.chunk(tensor, size)
    return parts[rank] if rank < len(parts) else tensor[:0]


def put(parameter: nn.Parameter, value: Tensor) -> None:
    """Copies a whole tensor into a parameter, or the share of it that this process has."""
    with torch.no_grad():
        if is_divided(parameter):
            mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]
            value = share_of(value, mesh.get_local_rank(), mesh.size())
        own_part(parameter).copy_(value)
