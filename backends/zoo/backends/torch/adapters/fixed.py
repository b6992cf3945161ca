"""A LoRA whose factor A is everybody's and is not trained (FFA-LoRA, arXiv:2403.12313).

A follows from a seed (`zoo.models.fixed_factor`), so contributions of B alone can be added up.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

import torch
from torch import nn

from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.adapters.start import lora_layers
from zoo.core.errors import InputError
from zoo.models.adapters import WEIGHT, stored_name
from zoo.models.fixed_factor import fixed_factor

if TYPE_CHECKING:
    from peft import PeftModel


@torch.no_grad()
def fix_factors(model: "PeftModel", seed: str, stored: Container[str] | None) -> None:
    """Sets the factor A of each layer to that of a seed, and lets B alone learn.

    Args:
        model: a model with an adapter that starts without effect.
        seed: 64 hexadecimal digits.
        stored: the names of the tensors in the model's files, which A depends on; those of the
            modules if None.

    Raises:
        InputError: the adapter is on something other than linear layers with weights of their own.
    """
    for name, layer in lora_layers(model):
        base = layer.get_base_layer()
        if hasattr(layer, "parameter_name") or not isinstance(base, nn.Linear):
            raise _no_linear(name, type(base).__name__)
        weight_name = name + WEIGHT if stored is None else stored_name(name, stored)
        if weight_name is None:
            raise _no_linear(name, "one that is joined or split when it is loaded")
        factor: nn.Parameter = layer.lora_A[ADAPTER].weight
        rank, columns = factor.shape
        factor.copy_(torch.from_numpy(fixed_factor(seed, weight_name, rank, columns)))
        factor.requires_grad = False


def _no_linear(name: str, got: str) -> InputError:
    return InputError(
        f"lora_fixed_a: {name!r}: expected a linear layer with a weight in the model's files, got "
        f"{got}",
        hint="lora_target can name the layers to adapt",
        code="torch.weight_not_in_files",
    )
