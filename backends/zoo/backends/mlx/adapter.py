"""LoRA and DoRA: adds adapters to a model, and reads and writes PEFT folders of every engine."""

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from zoo.backends.adapter_rank import warn_of_rank
from zoo.backends.mlx.files.load import Loaded
from zoo.backends.mlx.files.quantized import linear_shape
from zoo.backends.mlx.language import Slot
from zoo.backends.mlx.layers.lora import LoraLinear, is_linear
from zoo.backends.mlx.layers.state import PassState
from zoo.backends.mlx.trained import to_host
from zoo.backends.spec import LoraSpec
from zoo.core import read_header
from zoo.core.errors import GymWarning, InputError, NotAvailableError
from zoo.models.adapters import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    guard_patterns,
    pattern_values,
    read_adapter_config,
    refuse_strays,
    targeted,
)

PREFIX = "base_model.model."
"""What peft puts before a layer's name in a file."""

PARTS = ("lora_A", "lora_B")
MAGNITUDE = "lora_magnitude_vector"
NO_DELTA = (
    "no delta can be made of this adapter: it trains DoRA's magnitudes; deltas carry LoRA on "
    "linear layers below the head"
)
OUTPUT = "lm_head"

WITHOUT_EFFECT = frozenset(
    [
        "auto_mapping",
        "base_model_name_or_path",
        "ensure_weight_tying",
        "inference_mode",
        "lora_dropout",
        "megatron_core",
        "peft_type",
        "peft_version",
        "qalora_group_size",
        "revision",
        "runtime_config",
        "task_type",
    ]
)
"""Settings of an adapter's config that do not change its answers."""

FOLLOWED = frozenset(
    [
        "alpha_pattern",
        "exclude_modules",
        "layers_pattern",
        "layers_to_transform",
        "lora_alpha",
        "r",
        "rank_pattern",
        "target_modules",
        "use_dora",
        "use_rslora",
    ]
)
"""Settings that this engine follows."""


def linear_layers(model: nn.Module) -> dict[str, Any]:
    """Returns the linear layers by name, sorted, without the parts of an adapter on them."""
    layers = {name: module for name, module in model.named_modules() if is_linear(module)}
    return {name: layers[name] for name in sorted(layers) if not name.endswith(".base")}


def add_lora(loaded: Loaded, spec: LoraSpec, state: PassState, *, seed: int) -> dict[str, Slot]:
    """Adds a new adapter to every layer that `spec` targets; returns its parameters by name.

    Raises:
        InputError: a target matches no layer, or one that is not linear.
    """
    layers = linear_layers(loaded.model)
    chosen = _chosen(loaded.model, layers, spec.targets)
    slots: dict[str, Slot] = {}
    if spec.dora:
        warnings.warn(NO_DELTA, GymWarning, stacklevel=3)
        _refuse_head("lora_target", chosen)
    warn_of_rank(spec.rank, {name: linear_shape(layers[name]) for name in chosen})
    for index, name in enumerate(chosen):
        adapted = LoraLinear(layers[name], spec, state, index=index, seed=seed)
        slots |= _replace(loaded.model, name, adapted)
    return slots


def _chosen(model: nn.Module, layers: Mapping[str, Any], targets: Sequence[str]) -> list[str]:
    """Returns the names of the targeted layers."""
    if tuple(targets) == ("all-linear",):
        return [name for name in layers if name != OUTPUT]
    endings = ", ".join(sorted({name.rpartition(".")[2] for name in layers}))
    hint = f"this model has layers that end with {endings}"
    names = [name for name, _ in model.named_modules()]
    chosen: set[str] = set()
    for target in targets:
        matching = {name for name in names if target and f".{name}".endswith(f".{target}")}
        if not matching:
            raise InputError(
                f"lora_target: expected names that layers end with, got {target!r}",
                hint=hint,
                code="backends.no_such_module",
            )
        if not matching <= layers.keys():
            raise InputError(
                f"lora_target: {target!r} cannot be used here: expected linear layers",
                hint=hint,
                code="backends.not_linear",
            )
        chosen |= matching
    return sorted(chosen)


def _refuse_head(where: str, chosen: Sequence[str]) -> None:
    """Refuses magnitudes of the output layer, whose product is computed apart.

    Raises:
        InputError: it has some.
    """
    if OUTPUT in chosen:
        raise InputError(
            f"{where}: expected layers below the head for DoRA on MLX, got {OUTPUT!r}",
            hint="the torch engine has them",
            code="mlx.dora_on_head",
        )


def _replace(model: nn.Module, name: str, layer: LoraLinear) -> dict[str, Slot]:
    """Puts an adapted layer in place of the plain one; returns its parameters by name."""
    parent, _, key = name.rpartition(".")
    dict(model.named_modules())[parent][key] = layer
    layer.eval()
    return {f"{name}.{part}.weight": Slot(layer, part) for part in _parts(dora=MAGNITUDE in layer)}


def _parts(*, dora: bool) -> tuple[str, ...]:
    return (*PARTS, MAGNITUDE) if dora else PARTS


def _stored(name: str) -> str:
    """Returns the name in a file of a parameter: peft writes a magnitude without its ending."""
    name = name.removesuffix(".weight") if name.endswith(f"{MAGNITUDE}.weight") else name
    return f"{PREFIX}{name}"


def remove_lora(model: nn.Module) -> None:
    """Puts the plain layers back."""
    for name, layer in linear_layers(model).items():
        if isinstance(layer, LoraLinear):
            parent, _, key = name.rpartition(".")
            dict(model.named_modules())[parent][key] = layer.base


def load_lora(loaded: Loaded, folder: Path, state: PassState) -> None:
    """Loads a PEFT folder's adapter onto the model, for inference.

    Raises:
        NotAvailableError: the folder contains no adapter.
        InputError: the adapter is pickled, damaged, not finite, of a kind that this engine does not
            have, or does not fit the model.
    """
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
    refuse_kind(config_file, settings)
    layers, where = linear_layers(loaded.model), str(config_file)
    guard_patterns(settings, list(layers), where)
    chosen = sorted(targeted(settings, list(layers), where))
    if settings["target_modules"] == "all-linear":
        chosen = [name for name in chosen if name != OUTPUT]
    read_header(file)
    tensors: dict[str, mx.array] = mx.load(str(file))
    parts = _parts(dora=bool(settings.get("use_dora")))
    if MAGNITUDE in parts:
        _refuse_head(where, chosen)
    needed = {_stored(f"{name}.{part}.weight") for name in chosen for part in parts}
    refuse_strays(str(file), sorted(tensors.keys() - needed), sorted(needed - tensors.keys()))
    alphas = pattern_values(
        settings.get("alpha_pattern") or {}, chosen, settings.get("lora_alpha", 8), where
    )
    ranks = pattern_values(settings.get("rank_pattern") or {}, chosen, settings.get("r", 8), where)
    for index, name in enumerate(chosen):
        spec = LoraSpec(
            rank=ranks[name],
            alpha=float(alphas[name]),
            rslora=bool(settings.get("use_rslora")),
            dora=MAGNITUDE in parts,
        )
        adapted = LoraLinear(layers[name], spec, state, index=index, seed=0)
        for slot_name, slot in _replace(loaded.model, name, adapted).items():
            _fill(file, slot, _stored(slot_name), tensors)


def _fill(file: Path, slot: Slot, name: str, tensors: Mapping[str, mx.array]) -> None:
    value = tensors[name].astype(mx.float32)
    expected, got = tuple(slot.get().shape), tuple(value.shape)
    if expected != got:
        raise InputError(
            f"{file}: {name}: shape mismatch: expected {expected}, got {got}",
            code="backends.adapter_does_not_fit",
        )
    if not mx.isfinite(value).all().item():
        raise InputError(
            f"{file}: {name}: expected finite weights, got a NaN or an infinity",
            code="backends.not_finite",
        )
    slot.put(value)


def refuse_kind(config_file: Path, settings: Mapping[str, Any]) -> None:
    """Refuses adapters whose config has a setting that this engine does not follow."""
    if settings["peft_type"] != "LORA":
        raise InputError(
            f"{config_file}: peft_type: expected LORA on MLX, got {settings['peft_type']}",
            hint="the torch engine loads other kinds",
            code="backends.adapter_not_supported",
        )
    plain: dict[str, tuple[object, ...]] = {
        "bias": ("none",),
        "init_lora_weights": (True, False, "gaussian"),
    }
    for key in sorted(settings.keys() - FOLLOWED - WITHOUT_EFFECT):
        if settings[key] and settings[key] not in plain.get(key, ()):
            raise InputError(
                f"{config_file}: {key}: expected none on MLX, got {settings[key]!r:.80}",
                hint="the torch engine loads such adapters",
                code="backends.adapter_not_supported",
            )


def save_lora(slots: Mapping[str, Slot], spec: LoraSpec, folder: Path, *, base: str) -> None:
    """Writes the two files of a PEFT adapter.

    Args:
        slots: the parameters of the adapter by canonical name.
        spec: the settings of the adapter.
        folder: the folder; created if missing.
        base: recorded as its base model.
    """
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {_stored(name): to_host(slot.get()) for name, slot in slots.items()}
    save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
    settings = _peft_settings(slots, spec) | {
        "base_model_name_or_path": base,
        "inference_mode": True,
    }
    text = json.dumps({key: _plain(value) for key, value in sorted(settings.items())}, indent=2)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")


def _peft_settings(slots: Mapping[str, Slot], spec: LoraSpec) -> dict[str, Any]:
    """Returns peft's settings; it writes the names of all layers in place of `all-linear`."""
    from peft import LoraConfig

    names = {name.removesuffix(f".{part}.weight") for name in slots for part in (*PARTS, MAGNITUDE)}
    layers = sorted(names - slots.keys())
    targets = layers if tuple(spec.targets) == ("all-linear",) else list(spec.targets)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=spec.rank,
        lora_alpha=spec.alpha,  # type: ignore[arg-type]
        lora_dropout=spec.dropout,
        target_modules=targets,
        use_rslora=spec.rslora,
        use_dora=spec.dora,
    )
    settings: dict[str, Any] = config.to_dict()  # type: ignore[no-untyped-call]
    return settings


def _plain(value: object) -> object:
    """Returns a JSON value for one of peft's settings: sets sorted, enums by value."""
    if isinstance(value, set | frozenset):
        return sorted(str(entry) for entry in value)  # pyright: ignore[reportUnknownVariableType]
    return getattr(value, "value", value)
