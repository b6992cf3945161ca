"""The table of optimizers: each name with its maker."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from zoo.backends.base import OptimizerSpec
from zoo.backends.torch.optimizers.groups import check_groups, rated_groups
from zoo.backends.torch.optimizers.lion import Lion

BETAS = (0.9, 0.999)

Groups = list[dict[str, Any]]
Maker = Callable[[Mapping[str, nn.Parameter], OptimizerSpec], Sequence[Optimizer]]


def make_optimizers(
    parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec
) -> Sequence[Optimizer]:
    """Returns the optimizers that step `parameters` together, each parameter by one of them.

    Raises:
        InputError: a group matches no parameter.
        NotAvailableError: this device or installation lacks the optimizer.
    """
    check_groups(parameters, spec)
    # A policy for inference has no parameters to train; torch requires at least one.
    return MAKERS[spec.name](parameters, spec) if parameters else ()


def _adamw(parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> Sequence[Optimizer]:
    """AdamW (arXiv:1711.05101), torch's."""
    return [adamw(rated_groups(parameters, spec))]


def adamw(groups: Groups) -> Optimizer:
    """Returns torch's AdamW over groups that have a `lr_scale`."""
    return torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)


def _lion(parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> Sequence[Optimizer]:
    return [Lion(rated_groups(parameters, spec))]


def _sgd(parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> Sequence[Optimizer]:
    """Gradient descent without momentum, torch's: it has no state."""
    return [torch.optim.SGD(rated_groups(parameters, spec), lr=0.0)]


def _adafactor(parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> Sequence[Optimizer]:
    """Adafactor (arXiv:1804.04235) with a given rate, transformers'.

    Torch's scales the rate by the size of a parameter's values, so that matrices which begin as
    zeros, as an adapter's do, hardly learn.
    """
    import transformers

    make: Any = transformers.Adafactor
    groups = rated_groups(parameters, spec)
    return [make(groups, lr=0.0, scale_parameter=False, relative_step=False)]


MAKERS: Mapping[str, Maker] = {
    "adamw": _adamw,
    "lion": _lion,
    "adafactor": _adafactor,
    "sgd": _sgd,
}
"""Name -> the function that makes it; the names are those of `zoo.backends.spec.OPTIMIZERS`."""
