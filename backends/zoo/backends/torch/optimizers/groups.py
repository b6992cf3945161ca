"""Groups of parameters with the same share of the learning rate and the same weight decay."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from zoo.backends.base import OptimizerSpec, ParameterGroup
from zoo.core.errors import InputError


def rated_groups(
    parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec
) -> list[dict[str, Any]]:
    """Returns torch's groups: each parameter belongs to the first group of `spec` that matches it.

    Matrices come first. Weight decay is for matrices only, unless a group has its own.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for matrices in (True, False):
        for name, parameter in parameters.items():
            if (parameter.dim() > 1) is matrices:
                group, usual = _group_of(name, spec), spec.weight_decay if matrices else 0.0
                decay = usual if group.weight_decay is None else group.weight_decay
                key = (group.lr_scale, decay)
                groups.setdefault(key, []).append(parameter)
    return [
        {"params": params, "weight_decay": decay, "lr_scale": lr_scale}
        for (lr_scale, decay), params in groups.items()
    ]


def check_groups(parameters: Mapping[str, nn.Parameter], spec: OptimizerSpec) -> None:
    """Checks that each group of `spec` has a parameter, unless there is none at all.

    Raises:
        InputError: a group matches no parameter, or an adapter's factors are beside each other in
            an embedding, where no group of LoRA+ finds them.
    """
    embedded = next((name for name in parameters if "lora_embedding_" in name), None)
    if spec.groups and embedded is not None:
        module = embedded.partition(".lora_embedding_")[0]
        raise InputError(
            f"loraplus_lr_ratio: expected adapters on linear layers, got one on {module}",
            hint="leave the embedding out of lora_target, or train it whole: additional_target",
            code="backends.not_linear",
        )
    fitting = {_group_of(name, spec) for name in parameters}
    for group in spec.groups:
        if parameters and group not in fitting:
            raise InputError(
                f"optimizer: group {group.suffix!r}: expected the ending of a trained parameter's "
                f"name, such as {next(iter(parameters))!r}",
                code="backends.no_such_group",
            )


def _group_of(name: str, spec: OptimizerSpec) -> ParameterGroup:
    fits = (group for group in spec.groups if name.endswith(group.suffix))
    return next(fits, ParameterGroup(suffix=""))
