"""Settings with what an adapter says that is trained further: its rank, its kind, its codes.

They are taken from its config before anything else reads the settings, so that the checks, the
estimate, the stored settings and the card have one truth.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from zoo.gym.config.conflicts import disagreements
from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import InputError
from zoo.gym.paths import given_path
from zoo.gym.train.planning.parts import matrices_in_layers
from zoo.models.adapters import ALL_LINEAR, CONFIG_FILE, read_adapter_config, targeted
from zoo.models.folder import read_config

DEFAULTS = {"r": 8, "lora_alpha": 8, "lora_dropout": 0.0}
"""peft's, for an adapter whose config leaves them out."""


def with_adapter(config: TrainConfig, folder: Path | None = None) -> TrainConfig:
    """Returns the settings with those of the LoRA adapter in `adapter_name_or_path`.

    Args:
        config: the settings; without an adapter, or with one of another kind or no file, they are
            returned as they are: whoever loads it refuses that.
        folder: of the base, if it is known; one in few bits is not quantised again.

    Raises:
        InputError: the adapter's config is damaged, another value was given, or a setting cannot
            be together with those of the adapter.
    """
    if config.adapter_name_or_path is None:
        return config
    file = given_path(config.adapter_name_or_path) / CONFIG_FILE
    if not file.is_file():
        return config
    settings = read_adapter_config(file)
    if settings["peft_type"] != "LORA":
        return config
    coded = folder is not None and bool(read_config(folder).get("quantization_config"))
    layers, codes = _of_layers(settings), {} if coded else _of_codes(settings, file)
    implied = layers | codes
    # a base that is quantised in its files is known only with its folder, so defaults may differ
    stated = (config.model_fields_set & layers.keys()) | (config.given & codes.keys())
    everywhere = "lora_target" in stated and config.lora_target == "all"
    if everywhere and (folder is None or _covers(folder, settings, file)):
        stated -= {"lora_target"}
    _refuse_others(config, {key: implied[key] for key in implied if key in stated}, file)
    merged = config.model_copy(update=implied)
    if faults := (*disagreements(merged), *merged.conflicts()):
        text = "\n".join(_sentence(key, message, implied, file) for key, message in faults)
        raise InputError(
            text,
            hint="an adapter that is trained further keeps its own settings",
            code="train.adapter_settings",
        )
    return merged


def _of_layers(settings: Mapping[str, Any]) -> dict[str, object]:
    targets = settings.get("target_modules")
    layers: dict[str, object] = {
        "lora_rank": settings.get("r", DEFAULTS["r"]),
        "lora_alpha": float(settings.get("lora_alpha", DEFAULTS["lora_alpha"])),
        "lora_dropout": float(settings.get("lora_dropout") or DEFAULTS["lora_dropout"]),
        "use_rslora": settings.get("use_rslora") is True,
        "use_dora": True if settings.get("use_dora") else None,
    }
    if isinstance(targets, list):
        layers["lora_target"] = ",".join(sorted(cast("list[str]", targets)))
    elif targets:
        layers["lora_target"] = "all" if targets == ALL_LINEAR else targets
    return layers


def _covers(folder: Path, settings: Mapping[str, Any], file: Path) -> bool:
    """Returns whether an adapter is on all linear layers of a base."""
    layers = matrices_in_layers(folder)
    return targeted(settings, layers, str(file)) == set(layers)


def _of_codes(settings: Mapping[str, Any], file: Path) -> dict[str, object]:
    """Returns the base in few bits that an adapter of LoftQ names; most name none."""
    base = settings.get("loftq_config")
    if not base:
        return {"loftq_init": False}
    try:
        return {
            "loftq_init": True,
            "quantization_bit": base["loftq_bits"],
            "quantization_method": "bnb",
            "quantization_type": base["kind"],
            "double_quantization": bool(base["double"]),
        }
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{file}: loftq_config: expected the bits, kind and double of a quantised base, got "
            f"{base!r:.80}",
            code="train.adapter_config",
        ) from error


def _refuse_others(config: TrainConfig, implied: Mapping[str, object], file: Path) -> None:
    """Refuses values that were given and are not the adapter's own; None leaves it open."""
    wrong = [
        f"{key}={_shown(getattr(config, key))}: has no effect with adapter_name_or_path, whose own "
        f"settings are used: expected {_shown(value)}, as in {file}"
        for key, value in implied.items()
        if getattr(config, key) is not None and not _same(getattr(config, key), value)
    ]
    if wrong:
        raise InputError("\n".join(wrong), hint="leave it out", code="train.adapter_settings")


def _same(value: object, stored: object) -> bool:
    if isinstance(value, str) and isinstance(stored, str):
        return {part.strip() for part in value.split(",")} == set(stored.split(","))
    return (
        bool(value) == bool(stored)
        if stored is None or isinstance(stored, bool)
        else value == stored
    )


def _sentence(key: str, message: str, implied: Mapping[str, object], file: Path) -> str:
    if key not in implied:
        return f"{key}: {message}"
    return f"{key}={_shown(implied[key])} of {file}: {message}"


def _shown(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else f"{value}"
