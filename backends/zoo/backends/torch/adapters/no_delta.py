"""Warns of an adapter that no delta can carry, before it is trained."""

import warnings
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from torch import nn

from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.adapters.placement import linear_layers
from zoo.core.errors import GymWarning
from zoo.models.adapters import WEIGHT, stored_name

if TYPE_CHECKING:
    from peft import PeftModel


SETTINGS = {
    "loftq_config": "what quantising the base lost (LoftQ)",
    "modules_to_save": "whole modules",
    "use_dora": "DoRA's magnitudes",
}
"""What settings of LoRA add that no delta has."""


def warn_of_no_delta(model: "PeftModel", stored: Container[str] | None) -> None:
    """Warns before a run if no delta can be made of its adapter."""
    what = _beyond_deltas(model, stored)
    if what is not None:
        linear = {name.rpartition(".")[2] for name, _ in linear_layers(model.get_base_model())}
        instead = f" (lora_target={','.join(sorted(linear))})" if "stacked" in what else ""
        warnings.warn(
            f"no delta can be made of this adapter: it trains {what}; deltas carry LoRA on "
            f"linear layers below the head{instead}",
            GymWarning,
            stacklevel=4,
        )


def _beyond_deltas(model: "PeftModel", stored: Container[str] | None) -> str | None:
    settings: Any = model.peft_config[ADAPTER]
    if settings.peft_type.value == "OFT":
        return "rotations (OFT)"
    if setting := next((what for key, what in SETTINGS.items() if getattr(settings, key)), None):
        return setting
    return _layer_beyond_deltas(model.get_base_model(), stored)


def _layer_beyond_deltas(base: Any, stored: Container[str] | None) -> str | None:  # noqa: ANN401
    from peft.tuners.lora.layer import ParamWrapper
    from peft.tuners.tuners_utils import BaseTunerLayer
    from transformers.pytorch_utils import Conv1D

    for name, layer in base.named_modules():
        if not isinstance(layer, BaseTunerLayer):
            continue
        if isinstance(layer, ParamWrapper):
            parameter = f"{name.replace('.base_layer', '')}.{layer.parameter_name}"
            if stored is not None and stored_name(parameter.removesuffix(WEIGHT), stored) is None:
                return f"{parameter!r}, stacked experts, which the files do not store one by one"
            continue
        if not isinstance(layer.get_base_layer(), nn.Linear | Conv1D):
            return f"{name!r}, which is no linear layer"
        if layer is base.get_output_embeddings() and _is_tied(base):
            return f"{name!r}, which is tied to the embedding"
        if stored is not None and stored_name(name, stored) is None:
            return f"{name!r}, which the model's files store under another name"
    return None


def _is_tied(model: Any) -> bool:  # noqa: ANN401
    head: Any = model.get_output_embeddings().weight
    return head is model.get_input_embeddings().weight
