"""What should make a user doubt an adapter (another base, no effect) or a delta (it does harm)."""

import re
import warnings
from pathlib import Path
from typing import Any

from zoo.gym.delta.header import Quality
from zoo.gym.delta.weights import FLOATS, open_weights, read_float32
from zoo.gym.errors import GymWarning
from zoo.models.adapters import CONFIG_FILE, WEIGHTS_FILE, read_adapter_config
from zoo.models.resolve import model_of_folder, model_of_text

_FACTOR = re.compile(r"(?P<layer>.+)\.lora_(?:embedding_)?[AB](?:\.weight)?")


def warn_of_other_base(source: Path, base: Path) -> None:
    """Warns of an adapter whose config names another model than it is used on.

    Only names that are known on both sides are compared: a folder that was moved, or a copy of
    a model, has none.

    Args:
        source: a peft folder, or its safetensors file.
        base: the model folder that it is used on.

    Warns:
        GymWarning: names both.
    """
    path = (source if source.is_dir() else source.parent) / CONFIG_FILE
    here = model_of_folder(base)
    if here is None or not path.is_file():
        return
    config = read_adapter_config(path)
    told = model_of_text(config.get("base_model_name_or_path"), config.get("revision"))
    if told is None:
        return
    is_same = told.id.lower() == here.id.lower()
    if is_same and _is_revision(told.revision, here.revision):
        return
    names = [f"{m.id}@{m.revision}" if is_same and m.revision else m.id for m in (told, here)]
    warnings.warn(
        f"{path}: this adapter was made for {names[0]!r}, and is used on {names[1]!r}",
        GymWarning,
        stacklevel=3,
    )


def _is_revision(told: str | None, here: str | None) -> bool:
    """Says whether two revisions may be one; a branch or a tag may be any commit."""
    if told is None or not re.fullmatch(r"[0-9a-f]{7,40}", told):
        return True
    return here is not None and here.startswith(told)


def warn_of_no_effect(folder: Path) -> None:
    """Warns of a LoRA folder that leaves every weight as it is.

    Warns:
        GymWarning: it changes nothing.
    """
    config = read_adapter_config(folder / CONFIG_FILE)
    if config["peft_type"] == "LORA" and _changes_nothing(folder, config):
        warnings.warn(
            f"{folder}: this adapter changes nothing: the answers are those of the base alone",
            GymWarning,
            stacklevel=3,
        )


def warn_of_worse_delta(quality: Quality) -> None:
    """Warns of a delta that predicts the measured rows worse than its base does.

    Warns:
        GymWarning: names both losses, and the fine-tune's where it is worse, too.
    """
    if quality.delta > quality.base:
        is_lost = quality.tuned is None or quality.tuned <= quality.base
        cause = "" if is_lost else f"; so is the fine-tune, {quality.tuned:.4f}"
        warnings.warn(
            f"this delta is worse than its base on the measured rows: loss {quality.delta:.4f} "
            f"with it, {quality.base:.4f} without{cause}",
            GymWarning,
            stacklevel=3,
        )


def _changes_nothing(folder: Path, config: dict[str, Any]) -> bool:
    weights = open_weights(folder / WEIGHTS_FILE, mapped=False)
    if config.get("use_dora"):
        return False
    zeros: dict[str, bool] = {}
    for name in weights.tensors:
        match = _FACTOR.fullmatch(name)
        if match is None or weights.dtype(name) not in FLOATS:
            return False
        layer = match["layer"]
        zeros[layer] = zeros.get(layer, False) or not read_float32(weights, name).any()
    return bool(zeros) and all(zeros.values())
