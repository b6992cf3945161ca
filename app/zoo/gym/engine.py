"""Opens the engine of a device; its measurements of this machine are cached in a folder."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.gym.files import read_json_object, write_beside
from zoo.gym.paths import ensure_folder, folders

if TYPE_CHECKING:
    from zoo.backends.base import Backend


def open_engine(device: str | None = None) -> "Backend":
    """Returns the engine of `device`, by default or for `auto` of this machine's best device.

    Raises:
        InputError: no device has that name.
        NotAvailableError: the machine lacks it.
    """
    from zoo.backends import load_backend

    return load_backend(None if device == "auto" else device, recall)


def engine_for(folder: Path, adapter: Path | None = None) -> "Backend":
    """Returns the engine of this machine's best device that can load a model for inference.

    MLX lacks some architectures and kinds of adapters, which torch then loads.

    Args:
        folder: the model's folder.
        adapter: a PEFT folder to apply to it.
    """
    from zoo.backends.base import LoadSpec
    from zoo.backends.machine.detect import torch_device

    engine = open_engine()
    if not engine.faults(folder, LoadSpec(adapter=adapter)):
        return engine
    return open_engine(torch_device())


def recall(
    name: str, key: Mapping[str, str], measure: Callable[[], Mapping[str, float]]
) -> Mapping[str, float]:
    """Returns the cached measurements for a key, or measures and caches them.

    Args:
        name: the name of the measurement, and of its file in the cache folder.
        key: what the measurements depend on.
        measure: returns each measurement by name, in seconds.

    Raises:
        StorageError: the cache folder cannot be created.
    """
    file = folders().cache / f"{name}.json"
    cached = _kept(file, key)
    if cached is not None:
        return cached
    seconds = measure()
    ensure_folder(file.parent)
    write_beside(file, json.dumps({"key": dict(key), "seconds": dict(seconds)}, indent=2) + "\n")
    return seconds


def _kept(file: Path, key: Mapping[str, str]) -> dict[str, float] | None:
    """Returns the cached measurements for `key`; None if there are none or the file is damaged."""
    fields = read_json_object(file) or {}
    seconds = fields.get("seconds")
    if fields.get("key") != dict(key) or not isinstance(seconds, dict):
        return None
    figures = cast("dict[str, object]", seconds)
    good = {k: v for k, v in figures.items() if isinstance(v, float) and 0 < v < 3600}
    return good if good and len(good) == len(figures) else None
