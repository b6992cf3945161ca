"""LoRA through peft: put an adapter on, name its values, write it as a PEFT folder."""

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.base import LoraSpec
from zoo.backends.torch.quiet import quiet
from zoo.core import read_header
from zoo.core.errors import GymWarning, InputError, NotAvailableError
from zoo.models.folder import read_object
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    from peft import PeftModel

ADAPTER = "default"
CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"


def add_lora(model: nn.Module, spec: LoraSpec, *, seed: int) -> "PeftModel":
    """Puts a fresh adapter on every layer that `spec` names; B starts at zero.

    Raises:
        InputError: no layer has one of the named endings.
    """
    from peft import LoraConfig, get_peft_model

    targets: str | list[str] = list(spec.targets)
    if targets == ["all-linear"]:
        targets = "all-linear"
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=spec.rank,
        lora_alpha=spec.alpha,  # type: ignore[arg-type]
        lora_dropout=spec.dropout,
        target_modules=targets,
        use_rslora=spec.rslora,
    )
    known = sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)})
    torch.manual_seed(seed)
    try:
        with quiet():
            return get_peft_model(model, config)
    except ValueError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"lora_target: {', '.join(map(repr, spec.targets))} cannot be used here: {reason}",
            hint=f"this model has layers that end with {', '.join(known)}",
        ) from error


def linear_layers(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Returns the linear layers by name."""
    return [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear)]


def load_lora(model: nn.Module, folder: Path) -> "PeftModel":
    """Puts a PEFT folder's adapter on the model, for inference.

    Raises:
        NotAvailableError: the folder holds no adapter.
        InputError: the adapter is pickled, damaged, not finite, or does not fit this model.
    """
    from peft import PeftModel

    if not (folder / CONFIG_FILE).is_file():
        raise NotAvailableError(f"{folder}: no {CONFIG_FILE} there: expected a PEFT adapter folder")
    if not (folder / WEIGHTS_FILE).is_file():
        raise InputError(
            f"{folder}: no {WEIGHTS_FILE} there",
            hint="pickled adapters are not loaded; save it again as safetensors",
        )
    read_object(folder / CONFIG_FILE)
    read_header(folder / WEIGHTS_FILE)
    with refusals(f"{folder}: adapter does not fit this model"), quiet():
        # a tensor that is not in the file would be random, and peft only warns of it
        warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)
        adapted = PeftModel.from_pretrained(model, str(folder), is_trainable=False)
    _refuse_nan(folder / WEIGHTS_FILE, adapted)
    return adapted


def tell_stray(folder: Path, adapter: Path | None) -> None:
    """Warns of an adapter that lies in a model's folder and is not the one to load."""
    if not (folder / CONFIG_FILE).is_file():
        return
    if adapter is not None and adapter.resolve() == folder.resolve():
        return
    warnings.warn(
        f"{folder}: the {CONFIG_FILE} in this model's folder is not used: the model is loaded "
        f"without an adapter (--adapter_name_or_path {folder} puts it on)",
        GymWarning,
        stacklevel=3,
    )


def _refuse_nan(file: Path, model: "PeftModel") -> None:
    from peft import get_peft_model_state_dict

    tensors: dict[str, Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{file}: {name}: expected finite weights, got a NaN or an infinity")


def canonical(name: str) -> str:
    """Returns a parameter's name without peft's adapter name: what checkpoints are keyed by."""
    return name.replace(f".{ADAPTER}.", ".")


def save_lora(model: "PeftModel", folder: Path, *, base: str) -> None:
    """Writes the two files of a PEFT adapter; `base` is recorded as its base model."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: tensors[name].detach().float().cpu().contiguous() for name in sorted(tensors)},
        folder / WEIGHTS_FILE,
        metadata={"format": "pt"},
    )
    settings: dict[str, Any] = dict(model.peft_config[ADAPTER].to_dict())
    settings |= {"base_model_name_or_path": base, "inference_mode": True}
    text = json.dumps({key: _plain(value) for key, value in sorted(settings.items())}, indent=2)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")


def _plain(value: object) -> object:
    """Returns a JSON form of peft's settings: sets sorted, enums by value."""
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return getattr(value, "value", value)
