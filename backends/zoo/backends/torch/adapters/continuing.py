"""Trains a LoRA adapter further: it starts from the adapter's values, which are the reference."""

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from zoo.backends.torch.adapters.folder import load_adapter
from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.adapters.no_delta import warn_of_no_delta
from zoo.backends.torch.adapters.start import START, freeze_start
from zoo.backends.torch.quiet import peft_alone, quiet
from zoo.core.errors import InputError
from zoo.models.adapters import CONFIG_FILE

if TYPE_CHECKING:
    from peft import PeftModel

LEFT_OUT = {
    "modules_to_save": "whole modules",
    "trainable_token_indices": "trained token rows",
    "layer_replication": "replicated layers",
    "lora_bias": "a bias in B",
}
"""Settings of adapters whose training is not continued, with what they add."""


def continue_adapter(
    model: nn.Module, folder: Path, stored: Container[str] | None = None
) -> "PeftModel":
    """Loads an adapter twice: to train it, and frozen as the start.

    Args:
        model: a model without an adapter.
        folder: the adapter's.
        stored: the names of the tensors in the model's files, to warn of layers without a delta.

    Raises:
        InputError: the adapter is no LoRA or DoRA, changes the base, or has other parts.

    Warns:
        GymWarning: no delta can be made of such an adapter.
    """
    adapted = load_adapter(model, folder)
    _require_lora(folder / CONFIG_FILE, adapted.peft_config[ADAPTER])
    with quiet(), peft_alone():
        adapted.load_adapter(str(folder), START)
    freeze_start(adapted)
    warn_of_no_delta(adapted, stored)
    return adapted.eval()


def _require_lora(file: Path, settings: Any) -> None:  # noqa: ANN401
    where = f"{file}: training on top of it"
    if settings.peft_type.value != "LORA":
        raise InputError(
            f"{where}: expected a LoRA adapter, got {settings.peft_type.value}",
            code="torch.adapter_not_continued",
        )
    if settings.bias != "none":
        raise InputError(
            f"{where}: expected bias 'none', got {settings.bias!r}",
            code="torch.adapter_not_continued",
        )
    if settings.init_lora_weights not in (True, False, "gaussian"):
        raise InputError(
            f"{where}: expected an adapter that leaves its base as it was, got init_lora_weights "
            f"{settings.init_lora_weights!r}",
            code="torch.adapter_not_continued",
        )
    for key, what in LEFT_OUT.items():
        if getattr(settings, key):
            raise InputError(
                f"{where}: {key}: {what} cannot be trained further",
                code="torch.adapter_not_continued",
            )
