"""The array namespace of objectives, over torch."""

import torch
from torch import Tensor


class TorchNamespace:
    """The functions of `zoo.backends.base.ArrayNamespace` on torch tensors."""

    exp = staticmethod(torch.exp)
    expm1 = staticmethod(torch.expm1)
    log = staticmethod(torch.log)
    log1p = staticmethod(torch.log1p)
    minimum = staticmethod(torch.minimum)
    maximum = staticmethod(torch.maximum)
    zeros_like = staticmethod(torch.zeros_like)
    ones_like = staticmethod(torch.ones_like)
    sigmoid = staticmethod(torch.sigmoid)
    log_sigmoid = staticmethod(torch.nn.functional.logsigmoid)

    @staticmethod
    def where(condition: Tensor, x: Tensor, y: Tensor, /) -> Tensor:
        """Returns `x` where the condition is true, else `y`."""
        return torch.where(condition, x, y)

    @staticmethod
    def clip(x: Tensor, low: float, high: float, /) -> Tensor:
        """Returns `x` clipped to `[low, high]`."""
        return torch.clamp(x, low, high)

    @staticmethod
    def sum(x: Tensor, /, *, axis: int | None = None) -> Tensor:
        """Returns the sum over all values, or along one axis."""
        return x.sum() if axis is None else x.sum(axis)

    @staticmethod
    def mean(x: Tensor, /, *, axis: int | None = None) -> Tensor:
        """Returns the mean over all values, or along one axis."""
        return x.mean() if axis is None else x.mean(axis)

    @staticmethod
    def sort(x: Tensor, /, *, axis: int = -1) -> Tensor:
        """Returns the values in ascending order; each gradient goes to its value."""
        return torch.sort(x, dim=axis).values

    @staticmethod
    def stop_gradient(x: Tensor, /) -> Tensor:
        """Returns `x` as a constant."""
        return x.detach()
