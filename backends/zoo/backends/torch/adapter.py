"""LoRA through peft: adds, loads and saves adapters."""

import json
import warnings
from collections.abc import Container, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.base import LoraSpec
from zoo.backends.torch.quiet import quiet
from zoo.core import read_header
from zoo.core.errors import GymWarning, InputError, NotAvailableError
from zoo.models.adapters import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    guard_patterns,
    read_adapter_config,
    refuse_strays,
    stored_name,
)
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    from peft import PeftModel

ADAPTER = "default"
MAMBA = frozenset({"falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"})
"""The `model_type`s that peft 0.21 treats as state-space models."""

EXPERT_NAMES = ("gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3")


def add_lora(
    model: nn.Module, spec: LoraSpec, *, seed: int, stored: Container[str] | None = None
) -> "PeftModel":
    """Adds a new adapter to every layer that `spec` targets; B starts at zero.

    Args:
        model: a model without an adapter.
        spec: the settings of the adapter.
        seed: the seed of its initialisation.
        stored: the names of the tensors in the model's files, to warn of layers without a delta.

    Raises:
        InputError: a target matches no layer, or peft cannot adapt a matching layer.

    Warns:
        GymWarning: no delta can be made of such an adapter.
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
        exclude_modules=left_out(model) if targets == "all-linear" else None,
        use_rslora=spec.rslora,
    )
    named = ", ".join(map(repr, spec.targets))
    known = ", ".join(sorted({name.rpartition(".")[2] for name, _ in linear_layers(model)}))
    if isinstance(targets, list):
        _require_layers(model, targets, known)
    torch.manual_seed(seed)
    try:
        with refusals(f"lora_target: {named} cannot be used here"), quiet(), _peft_alone():
            adapted = get_peft_model(model, config)
            lost = _lost_when_saved(adapted)
    except InputError as error:
        error.hint = f"this model has layers that end with {known}"
        raise
    if lost:
        raise InputError(
            f"lora_target: peft cannot read back an adapter on {type(model).__name__}: it would "
            f"lose {lost[0]!r}",
            hint=f"choose other layers, whose names end with {known}, or finetuning_type=full",
        )
    _warn_of_no_delta(adapted, stored)
    return adapted


def _require_layers(model: nn.Module, targets: list[str], known: str) -> None:
    """Refuses a target that matches no layer; peft ignores it as long as another one matches."""
    names = [name for name, _ in model.named_modules()]
    for target in targets:
        if not target or not any(f".{name}".endswith(f".{target}") for name in names):
            raise InputError(
                f"lora_target: expected names that layers end with, got {target!r}",
                hint=f"this model has layers that end with {known}",
            )


def _lost_when_saved(model: "PeftModel") -> list[str]:
    """Returns the tensors that peft saves under names that it cannot load.

    peft applies the renaming rules of transformers, which it cannot always invert.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    saved = get_peft_model_state_dict(model, save_embedding_layers=False)
    result: Any = set_peft_model_state_dict(model, saved)
    missing = [name for name in result.missing_keys if "lora_" in name]
    return sorted([*result.unexpected_keys, *missing])


@contextmanager
def _peft_alone() -> Generator[None]:
    """Silences peft's warnings about its settings; we check the placement ourselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def left_out(model: Any) -> list[str] | None:  # noqa: ANN401
    """Returns the linear layers that "all" leaves out: LoRA on them fails or has no effect.

    Routers return more than a product. State-space layers read some weights without calling the
    layer: `dt_proj` always, `out_proj` in fast kernels, where peft refuses it. peft cannot load
    layers that transformers renames a second time (shared experts of Laguna).
    """
    read = (".dt_proj", ".out_proj") if model.config.model_type in MAMBA else (".dt_proj",)
    layers = linear_layers(model)
    lost = renamed(model, [name for name, _ in layers])
    return [
        name
        for name, layer in layers
        if name.endswith(read) or name in lost or not _gives_product(layer)
    ] or None


def renamed(model: Any, names: list[str]) -> list[str]:  # noqa: ANN401
    """Returns the layers that transformers renames a second time when peft loads an adapter."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, apply_renamings

    renamings = [
        step for step in get_model_conversion_mapping(model) if isinstance(step, WeightRenaming)
    ]
    keys = {name: f"{name}.lora_A.weight" for name in names}
    return [name for name, key in keys.items() if apply_renamings(key, renamings) != key]


@torch.no_grad()
def _gives_product(layer: nn.Linear) -> bool:
    if type(layer).forward is nn.Linear.forward:
        return True
    try:
        out: object = layer(layer.weight.new_zeros(1, layer.in_features))
    except (TypeError, ValueError, RuntimeError, IndexError):  # it has other inputs
        return False
    return isinstance(out, Tensor) and out.shape == (1, layer.out_features)


def _warn_of_no_delta(model: "PeftModel", stored: Container[str] | None) -> None:
    """Warns before a run if no delta can be made of its adapter."""
    what = _beyond_deltas(model, stored)
    if what is not None:
        linear = {name.rpartition(".")[2] for name, _ in linear_layers(model.get_base_model())}
        others = f" (lora_target={','.join(sorted(linear))})" if "stacked" in what else ""
        warnings.warn(
            f"no delta can be made of this adapter: it trains {what}; deltas carry adapters on "
            f"linear layers below the head{others}",
            GymWarning,
            stacklevel=4,
        )


def _beyond_deltas(model: "PeftModel", stored: Container[str] | None) -> str | None:
    from peft.tuners.tuners_utils import BaseTunerLayer
    from transformers.pytorch_utils import Conv1D

    settings: Any = model.peft_config[ADAPTER]
    if settings.target_parameters:
        return "stacked experts"
    base: Any = model.get_base_model()
    for name, layer in base.named_modules():
        if not isinstance(layer, BaseTunerLayer):
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


def linear_layers(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Returns the linear layers by name, without the parts of an adapter on them."""
    found = ((name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear))
    return [
        (name.removesuffix(".base_layer"), m) for name, m in found if ".lora_" not in f".{name}"
    ]


def load_adapter(model: nn.Module, folder: Path) -> "PeftModel":
    """Loads a PEFT folder's adapter onto the model, for inference.

    Raises:
        NotAvailableError: the folder contains no adapter.
        InputError: the adapter is pickled, damaged, not finite, of a kind that acts outside of
            layers, or does not fit this model.
    """
    from peft import PeftModel
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    config_file, file = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    if not config_file.is_file():
        raise NotAvailableError(f"{folder}: no {CONFIG_FILE} there: expected a PEFT adapter folder")
    if not file.is_file():
        raise InputError(
            f"{folder}: no {WEIGHTS_FILE} there",
            hint="pickled adapters are not loaded; save it again as safetensors",
        )
    settings = read_adapter_config(config_file)
    kind = settings["peft_type"]
    if kind not in PEFT_TYPE_TO_CONFIG_MAPPING:
        raise InputError(f"{config_file}: peft_type: unknown kind of adapter {kind!r}")
    read_header(file)
    guard_patterns(settings, _names(model), str(config_file))
    with refusals(f"{folder}: adapter does not fit this model", folder), quiet(), _peft_alone():
        config = PEFT_TYPE_TO_CONFIG_MAPPING[kind].from_pretrained(str(folder))
        _refuse_kind(config_file, config)
        adapted = PeftModel.from_pretrained(model, str(folder), config=config)
        # again: only this call reports unexpected and missing keys
        result = adapted.load_adapter(str(folder), ADAPTER)
    refuse_strays(str(file), result.unexpected_keys, result.missing_keys)
    _refuse_nan(file, adapted)
    return adapted


def _refuse_kind(config_file: Path, config: Any) -> None:  # noqa: ANN401
    """Refuses adapters that act on prompts: they have no effect when only the layers run."""
    if config.is_prompt_learning or config.is_adaption_prompt:
        raise InputError(
            f"{config_file}: peft_type: expected an adapter on layers, got "
            f"{config.peft_type.value}, which acts on the prompt"
        )
    if getattr(config, "alora_invocation_tokens", None):
        raise InputError(
            f"{config_file}: alora_invocation_tokens: expected one that acts on every token, "
            "got one that waits for some of the prompt"
        )


def _names(model: nn.Module) -> list[str]:
    """Returns every name that peft may match with a pattern of an adapter's config."""
    modules = {name for name, _ in model.named_modules()}
    parameters = {name for name, _ in model.named_parameters()}
    # adapters may use the earlier names of experts that are now stacked
    stacks = {name.rpartition(".")[0] for name in parameters if "expert" in name}
    experts = {f"{stack}.{name}" for stack in stacks for name in EXPERT_NAMES}
    return sorted(modules | parameters | experts)


def warn_of_unused_adapter(folder: Path, adapter: Path | None) -> None:
    """Warns of an adapter in a model's folder that is not the one to load."""
    if not (folder / CONFIG_FILE).is_file():
        return
    if adapter is not None and adapter.resolve() == folder.resolve():
        return
    warnings.warn(
        f"{folder}: the {CONFIG_FILE} in this model's folder is not used: the model is loaded "
        f"without an adapter (--adapter_name_or_path {folder} loads it)",
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
    """Returns a parameter's name without peft's adapter name, as used in checkpoints."""
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
    """Returns a JSON value for one of peft's settings: sets sorted, enums by value."""
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return getattr(value, "value", value)
