"""A frozen second adapter beside the trained one: the values from which it starts.

PiSSA (arXiv:2404.02948, eq. 2 to 4) splits a weight into its largest singular values, which are
trained as factors, and a frozen rest: W = (W - s B0 A0) + s B0 A0. Here the base stays as it is,
and a frozen adapter subtracts s B0 A0: the sums are the same up to rounding, nothing of a 16-bit
base is rounded, and the model without both adapters is the reference.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from math import sqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.base import LoraSpec
from zoo.backends.torch.adapters.names import ADAPTER, is_added
from zoo.backends.torch.streaming.layers import release
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from peft import PeftModel

START = "start"
"""The name of the frozen adapter inside peft's model."""


@torch.no_grad()
def start_from_singular_values(model: "PeftModel", spec: LoraSpec) -> None:
    """Sets the adapter to the largest singular values of each weight, and subtracts them.

    Raises:
        InputError: the adapter is on something other than linear layers, or has a larger rank
            than a layer.
    """
    _require_linear(model)
    require_rank(model, spec.rank, "pissa_init")
    add_start(model)
    for _, layer in lora_layers(model):
        A, B = principal_factors(base_weight(layer), spec.rank, spec.pissa_iter)
        release(model.get_base_model(), layer.get_base_layer().weight)
        for name, sign in ((ADAPTER, 1.0), (START, -1.0)):
            scale = sqrt(layer.scaling[name])
            layer.lora_A[name].weight.copy_(A / scale)
            layer.lora_B[name].weight.copy_(sign * B / scale)
    tuner: Any = model.base_model
    tuner.set_adapter([ADAPTER, START])
    for parameter in frozen_values(model).values():
        parameter.requires_grad = False


def add_start(model: "PeftModel") -> None:
    """Adds a second adapter like the first one, without dropout and without whole modules."""
    settings = deepcopy(model.peft_config[ADAPTER])
    settings.lora_dropout = 0.0  # type: ignore[attr-defined]
    settings.modules_to_save = None  # type: ignore[attr-defined]
    settings.modules_to_tie = None  # type: ignore[attr-defined]
    settings.ensure_weight_tying = False  # type: ignore[attr-defined]
    model.add_adapter(START, settings)


def principal_factors(weight: Tensor, rank: int, iterations: int) -> tuple[Tensor, Tensor]:
    """Returns A `[r, in]` and B `[out, r]`, whose product is the nearest matrix of that rank.

    Args:
        weight: a matrix `[out, in]`.
        rank: r, at most the smaller side.
        iterations: those of a randomised decomposition; -1 computes the exact one.
    """
    if iterations < 0:
        left, values, right = torch.linalg.svd(weight, full_matrices=False)
        left, values, right = left[:, :rank], values[:rank], right[:rank]
    else:
        left, values, columns = torch.svd_lowrank(weight, q=rank, niter=iterations)
        right = columns.T
    roots = values.sqrt()
    return roots[:, None] * right, left * roots


def _require_linear(model: "PeftModel") -> None:
    from transformers.pytorch_utils import Conv1D

    for _, layer in lora_layers(model):
        base = layer.get_base_layer()
        if hasattr(layer, "parameter_name") or not isinstance(base, nn.Linear | Conv1D):
            kind = "stacked experts" if hasattr(layer, "parameter_name") else type(base).__name__
            raise InputError(
                f"pissa_init: expected linear layers, got {kind}",
                hint="lora_target can name the layers to adapt",
                code="backends.not_linear",
            )


def require_rank(model: "PeftModel", rank: int, key: str) -> None:
    """Refuses a rank that no decomposition has; `key` is the setting that asks for one.

    Raises:
        InputError: it is larger than the smaller side of a layer.
    """
    check_rank([layer for _, layer in lora_layers(model)], rank, key)


def check_rank(layers: Iterable[Any], rank: int, key: str) -> None:
    """The same of layers whose adapter is not made yet."""
    smallest = min((min(layer.in_features, layer.out_features) for layer in layers), default=rank)
    if rank > smallest:
        raise InputError(
            f"lora_rank: expected at most {smallest} with {key}, the smallest side of a layer, "
            f"got {rank}",
            code="torch.rank_too_large",
        )


def lora_layers(model: "PeftModel") -> Iterator[tuple[str, Any]]:
    """Yields the layers that have an adapter, by their names in the base."""
    from peft.tuners.lora import LoraLayer

    for name, layer in model.get_base_model().named_modules():
        if isinstance(layer, LoraLayer):
            yield name, layer


def freeze_start(model: "PeftModel") -> None:
    """Lets the adapter learn, and neither the base nor the frozen adapter."""
    model.set_adapter(ADAPTER)
    for name, parameter in model.get_base_model().named_parameters():
        parameter.requires_grad = is_added(name)
    for parameter in frozen_values(model).values():
        parameter.requires_grad = False


def base_weight(layer: Any) -> Tensor:  # noqa: ANN401
    """Returns the base's weight as float32 `[out, in]`."""
    from peft.utils.integrations import dequantize_module_weight

    weight: Tensor = dequantize_module_weight(layer.get_base_layer()).float()
    return weight.T if layer.fan_in_fan_out else weight


def is_subtracted(model: "PeftModel") -> bool:
    """Returns whether the frozen adapter is part of the trained model, as with PiSSA."""
    tuner: Any = model.base_model
    return {ADAPTER, START} <= set(tuner.active_adapters)


def frozen_values(model: "PeftModel | None") -> dict[str, nn.Parameter]:
    """Returns the parameters of the frozen adapter by name; none if there is no such adapter."""
    if model is None:
        return {}
    named = model.get_base_model().named_parameters()
    return {name: value for name, value in named if f".{START}." in name}


@contextmanager
def as_before_training(model: "PeftModel") -> Generator[None]:
    """Makes the model what it was before training, inside the block."""
    learning = [(p, p.requires_grad) for p in model.parameters()]
    try:
        if START not in model.peft_config or is_subtracted(model):
            with model.disable_adapter():
                yield
            return
        model.set_adapter(START)
        try:
            yield
        finally:
            model.set_adapter(ADAPTER)
    finally:  # peft enables the gradients of every active adapter
        for parameter, learns in learning:
            parameter.requires_grad_(learns)


def joined(tensors: dict[str, Tensor], start: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the factors of the sum of two adapters with the same layers and scales.

    Modules that are trained whole are in the first one alone.
    """
    return {
        name: torch.cat([tensor, start[name]], dim=0 if ".lora_A." in name else 1)
        if name in start
        else tensor
        for name, tensor in tensors.items()
    }
