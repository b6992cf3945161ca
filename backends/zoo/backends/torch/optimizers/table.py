"""The table of optimizers: each name with its maker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from zoo.backends.base import OptimizerSpec
from zoo.backends.libraries.quantization import check_device
from zoo.backends.optimizer_spec import PROJECTED
from zoo.backends.torch.optimizers.adam_mini import AdamMini
from zoo.backends.torch.optimizers.axes import NO_AXES, Axes
from zoo.backends.torch.optimizers.blocks import block_of, split_linear
from zoo.backends.torch.optimizers.groups import check_groups, rated_groups
from zoo.backends.torch.optimizers.library_adamw import library_adamw
from zoo.backends.torch.optimizers.lion import Lion
from zoo.backends.torch.optimizers.low_rank import Apollo, Galore, LowRank
from zoo.backends.torch.optimizers.one_block import OneBlockAdamW
from zoo.backends.torch.optimizers.projection import ALL, is_in, split_projected
from zoo.backends.torch.quantized.library import import_bitsandbytes

BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class Inputs:
    """What an optimizer is made from.

    Attributes:
        parameters: the parameters to train, by canonical name.
        spec: its settings.
        axes: where outputs, experts and heads are.
    """

    parameters: Mapping[str, nn.Parameter]
    spec: OptimizerSpec
    axes: Axes = NO_AXES

    def names(self) -> dict[Tensor, str]:
        """Returns the name of each parameter."""
        return {parameter: name for name, parameter in self.parameters.items()}

    def groups(self) -> list[dict[str, Any]]:
        """Returns torch's groups of all parameters."""
        return rated_groups(self.parameters, self.spec)


Maker = Callable[[Inputs], Sequence[Optimizer]]


def make_optimizers(inputs: Inputs) -> Sequence[Optimizer]:
    """Returns the optimizers that step the parameters together, each parameter by one of them.

    Raises:
        InputError: a group matches no parameter.
        NotAvailableError: this device or installation lacks the optimizer.
    """
    check_groups(inputs.parameters, inputs.spec)
    # A policy for inference has no parameters to train; torch requires at least one.
    return MAKERS[inputs.spec.name](inputs) if inputs.parameters else ()


def notes_of(inputs: Inputs) -> tuple[str, ...]:
    """Returns a sentence about the layers of blocks that an optimizer of matrices leaves to AdamW.

    They have more than two axes: stacked experts, convolutions.
    """
    spec = inputs.spec
    if spec.name not in MATRICES:
        return ()
    targets = spec.projection.targets if spec.name in PROJECTED else ALL
    wide = [name for name, p in inputs.parameters.items() if p.dim() > 2 and block_of(name)]
    left = [name for name in wide if targets == ALL or any(is_in(t, name) for t in targets)]
    if not left:
        return ()
    size = sum(inputs.parameters[name].numel() for name in left)
    share = size / sum(parameter.numel() for parameter in inputs.parameters.values())
    return (
        f"optim {spec.name} takes matrices: {len(left)} of {len(inputs.parameters)} trained "
        f"tensors have more axes, as stacked experts have, and are left to {MATRICES[spec.name]}, "
        f"{share:.0%} of all values: {left[0]}{' ...' if len(left) > 1 else ''}",
    )


def _adamw(inputs: Inputs) -> Sequence[Optimizer]:
    """AdamW (arXiv:1711.05101), torch's."""
    return [adamw(inputs.groups())]


def adamw(groups: list[dict[str, Any]]) -> Optimizer:
    """Returns torch's AdamW over groups that have a `lr_scale`."""
    return torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)


def _muon(inputs: Inputs) -> Sequence[Optimizer]:
    """Muon, torch's, for the matrices of blocks, and AdamW for the others.

    Its rate is scaled as in arXiv:2502.16982, section 2.2: so it is AdamW's rate.
    """
    linear, rest = split_linear(inputs.parameters)
    optimizers: list[Optimizer] = []
    if linear:
        groups = rated_groups(linear, inputs.spec)
        optimizers.append(torch.optim.Muon(groups, lr=0.0, adjust_lr_fn="match_rms_adamw"))
    return [*optimizers, adamw(rated_groups(rest, inputs.spec))] if rest else optimizers


def _adam_mini(inputs: Inputs) -> Sequence[Optimizer]:
    return [AdamMini(inputs.groups(), inputs.names(), inputs.axes)]


def _lion(inputs: Inputs) -> Sequence[Optimizer]:
    return [Lion(inputs.groups())]


def _sgd(inputs: Inputs) -> Sequence[Optimizer]:
    """Gradient descent without momentum, torch's: it has no state."""
    return [torch.optim.SGD(inputs.groups(), lr=0.0)]


def _adafactor(inputs: Inputs) -> Sequence[Optimizer]:
    """Adafactor (arXiv:1804.04235) with a given rate, transformers'.

    Torch's scales the rate by the size of a parameter's values, so that matrices which begin as
    zeros, as an adapter's do, hardly learn.
    """
    # transformers imports it with its optimizers, if it is installed
    import_bitsandbytes()
    import transformers

    make: Any = transformers.Adafactor
    return [make(inputs.groups(), lr=0.0, scale_parameter=False, relative_step=False)]


def _galore(inputs: Inputs) -> Sequence[Optimizer]:
    return _projected(Galore, inputs, "galore_target")


def _apollo(inputs: Inputs) -> Sequence[Optimizer]:
    return _projected(Apollo, inputs, "apollo_target")


def _projected(kind: type[LowRank], inputs: Inputs, key: str) -> Sequence[Optimizer]:
    """One of projected gradients for the chosen matrices, and AdamW for the others."""
    spec = inputs.spec
    chosen, rest = split_projected(inputs.parameters, spec.projection.targets, key)
    low = kind(rated_groups(chosen, spec), inputs.names(), spec.projection)
    return [low, adamw(rated_groups(rest, spec))] if rest else [low]


def _badam(inputs: Inputs) -> Sequence[Optimizer]:
    return [OneBlockAdamW(inputs.groups(), inputs.parameters, inputs.spec.blocks)]


def _library(inputs: Inputs) -> Sequence[Optimizer]:
    """AdamW with state in 8 bits for the matrices of blocks, or paged for all parameters."""
    spec = inputs.spec
    device = next(iter(inputs.parameters.values())).device.type
    check_device(spec.name, device)
    paged = spec.name.startswith("paged_")
    linear, rest = split_linear(inputs.parameters)
    bits = 8 if spec.name.endswith("_8bit") else 32
    return [
        library_adamw(rated_groups(parameters, spec), bits=bits_here, paged=paged)
        for parameters, bits_here in ((linear, bits), (rest, 32))
        if parameters
    ]


MAKERS: Mapping[str, Maker] = {
    "adamw": _adamw,
    "muon": _muon,
    "adam_mini": _adam_mini,
    "lion": _lion,
    "adafactor": _adafactor,
    "sgd": _sgd,
    "galore": _galore,
    "apollo": _apollo,
    "apollo_mini": _apollo,
    "badam": _badam,
    "adamw_8bit": _library,
    "paged_adamw_8bit": _library,
    "paged_adamw_32bit": _library,
}
"""Name -> the function that makes it; `optimizer_spec.OPTIMIZERS` has the same names."""

MATRICES: Mapping[str, str] = {
    **dict.fromkeys(("muon", *PROJECTED), "adamw"),
    "adamw_8bit": "adamw of 32 bits",
    "paged_adamw_8bit": "adamw of 32 bits",
}
"""The optimizers that step only matrices -> what steps the other tensors."""
