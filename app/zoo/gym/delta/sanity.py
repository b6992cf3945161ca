"""Warns of an adapter for another base or without effect, and of a delta worse than its base.

These are warnings only; an unusable delta is refused when it is read.
"""

import re
import warnings
from pathlib import Path
from typing import Any

from zoo.gym.delta.file.header import Quality
from zoo.gym.delta.origin.digests import stored_weights_digest, weights_digest
from zoo.gym.delta.origin.record import ORIGIN_FILE
from zoo.gym.delta.reading.weights import FLOATS, open_weights, read_float32
from zoo.gym.errors import GymError, GymWarning
from zoo.gym.paths import given_path
from zoo.models.adapters import CONFIG_FILE, WEIGHTS_FILE, read_adapter_config
from zoo.models.folder import read_object
from zoo.models.names import Name
from zoo.models.registry import PICO
from zoo.models.resolve import is_path, model_of_folder, model_of_text, pico_folder

_FACTOR = re.compile(r"(?P<layer>.+)\.lora_(?:embedding_)?[AB](?:\.weight)?")


def warn_of_other_base(source: Path, base: Path) -> None:
    """Warns of an adapter that was made for another model than it is used on.

    A result of ours records the weights that it was trained on. The config of any other adapter
    has the name of a model: if both names are known, they are compared, otherwise the weights of
    the two, if the named model is on this machine.

    Args:
        source: a peft folder, or its safetensors file.
        base: the model folder that it is used on.

    Raises:
        InputError: the adapter's config or origin is damaged, or the base contains no weights.

    Warns:
        GymWarning: the adapter was made for another base; the message has both.
    """
    folder = source if source.is_dir() else source.parent
    path = folder / CONFIG_FILE
    config = read_adapter_config(path) if path.is_file() else {}
    text = config.get("base_model_name_or_path")
    stated, here = model_of_text(text, config.get("revision")), model_of_folder(base)
    made_for = _trained_on(folder)
    if made_for is None and stated is not None and here is not None:
        doubt = _other_name(stated, here)
    else:
        made_for = made_for or _weights_of(text, stated, base)
        doubt = _other_weights(made_for, text, base) if made_for else ""
    if doubt:
        warnings.warn(f"{path}: this adapter was made {doubt}", GymWarning, stacklevel=3)


def _other_name(stated: Name, here: Name) -> str:
    is_same = stated.id.lower() == here.id.lower()
    if is_same and _is_revision(stated.revision, here.revision):
        return ""
    names = [f"{m.id}@{m.revision}" if is_same and m.revision else m.id for m in (stated, here)]
    return f"for {names[0]!r}, and is used on {names[1]!r}"


def _other_weights(made_for: str, text: object, base: Path) -> str:
    if weights_digest(base) == made_for:
        return ""
    named = repr(text) if text else "another model"
    return f"for {named}, and is used on '{base}', which has other weight files"


def _trained_on(folder: Path) -> str | None:
    """Returns the digest of the weights that a result of ours was trained on."""
    path = folder / ORIGIN_FILE
    return stored_weights_digest(read_object(path)) if path.is_file() else None


def _weights_of(text: object, stated: Name | None, base: Path) -> str | None:
    """Returns the digest of the weights that an adapter was made for, if in another folder."""
    if stated is not None and stated.id == PICO:
        folder = pico_folder()
    elif isinstance(text, str) and text and is_path(text):
        folder = Path(text)
    else:
        return None
    try:
        folder = given_path(folder)
        return None if folder.samefile(base) else weights_digest(folder)
    except (GymError, OSError, ValueError):  # missing, or no longer a model
        return None


def _is_revision(stated: str | None, here: str | None) -> bool:
    """Returns whether two revisions may be the same; a branch or a tag may be any commit."""
    if stated is None or not re.fullmatch(r"[0-9a-f]{7,40}", stated):
        return True
    return here is not None and here.startswith(stated)


def warn_of_no_effect(folder: Path) -> None:
    """Warns of a LoRA folder that changes no weight.

    Warns:
        GymWarning: the adapter has no effect.
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
        GymWarning: the message has both losses, and the fine-tune's if it is worse, too.
    """
    if quality.delta > quality.base:
        is_lost = quality.tuned is None or quality.tuned <= quality.base
        cause = "" if is_lost else f"; the fine-tune is worse, too: {quality.tuned:.4f}"
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
