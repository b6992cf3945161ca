"""Loads and saves the folders of PEFT adapters."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.adapters.placement import linear_layers
from zoo.backends.torch.adapters.start import START, is_subtracted, joined
from zoo.backends.torch.quantized.int8 import check_codes
from zoo.backends.torch.quantized.library import import_bitsandbytes
from zoo.backends.torch.quiet import peft_alone, quiet
from zoo.core import read_header
from zoo.core.errors import InputError, NotAvailableError
from zoo.models.adapters import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    guard_patterns,
    read_adapter_config,
    refuse_strays,
)
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    from peft import PeftModel

EXPERT_NAMES = ("gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3")


def load_adapter(model: nn.Module, folder: Path) -> "PeftModel":
    """Loads a PEFT folder's adapter onto the model, for inference.

    Raises:
        NotAvailableError: the folder contains no adapter.
        InputError: the adapter is pickled, damaged, not finite, of a kind that acts outside of
            layers, or does not fit this model; it has magnitudes, and the model is in 8 bits.
    """
    import_bitsandbytes()  # before peft does it
    from peft import PeftModel
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    config_file, file = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    if not config_file.is_file():
        raise NotAvailableError(
            f"{folder}: no {CONFIG_FILE} there: expected a PEFT adapter folder",
            code="backends.no_adapter",
        )
    if not file.is_file():
        raise InputError(
            f"{folder}: no {WEIGHTS_FILE} there",
            hint="pickled adapters are not loaded; save it again as safetensors",
            code="backends.no_adapter_weights",
        )
    settings = read_adapter_config(config_file)
    kind = settings["peft_type"]
    if kind not in PEFT_TYPE_TO_CONFIG_MAPPING:
        raise InputError(
            f"{config_file}: peft_type: unknown kind of adapter {kind!r}",
            code="backends.adapter_not_supported",
        )
    if settings.get("use_dora"):
        check_codes(model)
    read_header(file)
    guard_patterns(settings, _names(model), str(config_file))
    _require_targets(folder, settings, model)
    with refusals(f"{folder}: adapter does not fit this model", folder), quiet(), peft_alone():
        config = PEFT_TYPE_TO_CONFIG_MAPPING[kind].from_pretrained(str(folder))
        _refuse_kind(config_file, config)
        adapted = PeftModel.from_pretrained(model, str(folder), config=config)
        # again: only this call reports unexpected and missing keys
        result = adapted.load_adapter(str(folder), ADAPTER)
    if loftq := settings.get("loftq_config"):  # peft drops it
        named: Any = adapted.peft_config[ADAPTER]
        named.loftq_config = loftq
    refuse_strays(str(file), result.unexpected_keys, result.missing_keys)
    _refuse_nan(file, adapted)
    return adapted


def _refuse_kind(config_file: Path, config: Any) -> None:  # noqa: ANN401
    """Refuses adapters that act on prompts: they have no effect when only the layers run."""
    if config.is_prompt_learning or config.is_adaption_prompt:
        raise InputError(
            f"{config_file}: peft_type: expected an adapter on layers, got "
            f"{config.peft_type.value}, which acts on the prompt",
            code="backends.adapter_not_supported",
        )
    if getattr(config, "alora_invocation_tokens", None):
        raise InputError(
            f"{config_file}: alora_invocation_tokens: expected one that acts on every token, "
            "got one that waits for some of the prompt",
            code="backends.adapter_not_supported",
        )


def _require_targets(folder: Path, settings: dict[str, Any], model: nn.Module) -> None:
    """Refuses an adapter for another architecture, with the names of its layers."""
    targets, names = settings.get("target_modules"), _names(model)
    if not isinstance(targets, list) or not targets or settings.get("target_parameters"):
        return
    ends = tuple(f".{target}" for target in cast("list[str]", targets))
    if not any(f".{name}".endswith(ends) for name in names):
        endings = sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)})
        raise InputError(
            f"{folder}: adapter does not fit this model: expected layers of "
            f"{type(model).__name__}, got {', '.join(sorted(targets))}",
            hint=f"this model has layers that end with {', '.join(endings)}",
            code="backends.adapter_does_not_fit",
        )


def _names(model: nn.Module) -> list[str]:
    """Returns every name that peft may match with a pattern of an adapter's config."""
    modules = {name for name, _ in model.named_modules()}
    parameters = {name for name, _ in model.named_parameters()}
    # adapters may use the earlier names of experts that are now stacked
    stacks = {name.rpartition(".")[0] for name in parameters if "expert" in name}
    experts = {f"{stack}.{name}" for stack in stacks for name in EXPERT_NAMES}
    return sorted(modules | parameters | experts)


def _refuse_nan(file: Path, model: "PeftModel") -> None:
    from peft import get_peft_model_state_dict

    tensors: dict[str, Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{file}: {name}: expected finite weights, got a NaN or an infinity",
                code="backends.not_finite",
            )


def save_adapter(model: "PeftModel", folder: Path, *, base: str) -> None:
    """Writes the two files of a PEFT adapter; `base` is recorded as its base model."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    settings: dict[str, Any] = dict(model.peft_config[ADAPTER].to_dict())
    if is_subtracted(model):
        start = get_peft_model_state_dict(model, adapter_name=START, save_embedding_layers=False)
        tensors = joined(tensors, start)
        rank = 2 * settings["r"]
        scale = settings["lora_alpha"] / settings["r"] ** (0.5 if settings["use_rslora"] else 1)
        settings |= {"r": rank, "lora_alpha": scale * rank, "use_rslora": False}
    folder.mkdir(parents=True, exist_ok=True)
    values = {name: tensors[name].detach().float().cpu().contiguous() for name in sorted(tensors)}
    save_file(_apart(values), folder / WEIGHTS_FILE, metadata={"format": "pt"})
    settings |= {"base_model_name_or_path": base, "inference_mode": True}
    text = json.dumps({key: _plain(value) for key, value in sorted(settings.items())}, indent=2)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns tensors without shared memory: a tied head is written beside its embedding."""
    first: dict[int, str] = {}
    return {
        name: tensor if first.setdefault(tensor.data_ptr(), name) == name else tensor.clone()
        for name, tensor in tensors.items()
    }


def _plain(value: object) -> object:
    """Returns a JSON value for one of peft's settings: sets sorted, enums by value."""
    if isinstance(value, set | frozenset):
        return sorted(str(entry) for entry in value)  # pyright: ignore[reportUnknownVariableType]
    return getattr(value, "value", value)
