"""What a user may contribute: files, folders, runs, and models that a program has in memory."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.gym.arguments import path_of
from zoo.gym.delta.file.reader import is_delta, load_delta
from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.errors import InputError
from zoo.gym.jobs.run import RunResult
from zoo.models.adapters import CONFIG_FILE, read_adapter_config
from zoo.models.folder import read_config

_EXPECTED = (
    "expected a delta file, a folder of an adapter or a model, the result of a training, or a "
    "model of transformers or peft"
)


@dataclass(frozen=True)
class Source:
    """A fine-tune on disk.

    Attributes:
        path: a delta file, or a folder of an adapter or of full weights.
        base: the name of its base by its own record; empty if it has none.
    """

    path: Path
    base: str


def source_of(model: object, scratch: Path) -> Source:
    """Returns a fine-tune, written to a new folder if it is in memory.

    Args:
        model: see `DeltaSoup.contribute`.
        scratch: where models in memory are written.

    Raises:
        InputError: it is nothing that can be contributed.
        NotAvailableError: there is no such file or model.
    """
    if isinstance(model, RunResult):
        from zoo.gym.config import load_config

        config = load_config([model.folder / "config.yaml"], [], {}).config
        return Source(model.model, config.model_name_or_path)
    if isinstance(model, str | os.PathLike):
        from zoo.gym.arguments import model_folder

        path = model_folder("model", model)
        return Source(path, _recorded(path))
    live: Any = model
    if not hasattr(live, "save_pretrained"):
        raise InputError(f"model: {_EXPECTED}, got a value of type {type(model).__name__}")
    folder = Path(tempfile.mkdtemp(prefix="model-", dir=scratch))
    adapters: Any = getattr(live, "peft_config", None)
    if not adapters:
        live.save_pretrained(folder)
        return Source(folder, str(getattr(live.config, "_name_or_path", "") or ""))
    return _live_adapter(live, dict(adapters), folder)


def _live_adapter(live: Any, adapters: dict[str, Any], folder: Path) -> Source:  # noqa: ANN401
    if len(adapters) != 1:
        raise InputError(
            f"model: expected one adapter, got {', '.join(sorted(adapters))}",
            hint="model.delete_adapter(NAME) removes one",
        )
    (name, config), *_ = adapters.items()
    live.save_pretrained(folder)
    inside = folder / name
    path = inside if inside.is_dir() else folder
    return Source(path, str(config.base_model_name_or_path or ""))


def _recorded(path: Path) -> str:
    """Returns the name of the base that a fine-tune's files record."""
    if path.is_file():
        return load_delta(path).header.base.id if is_delta(path) else ""
    if is_adapter(path):
        return str(read_adapter_config(path / CONFIG_FILE).get("base_model_name_or_path") or "")
    return str(read_config(path).get("_name_or_path") or "") if path.is_dir() else ""


def base_folder(name: str | Path, argument: str) -> Path:
    """Returns the folder of a base that is on this machine.

    Raises:
        InputError: it is no name or path.
        NotAvailableError: it is not here; nothing is downloaded.
    """
    from zoo.models import resolve

    text = str(name)
    return resolve(text, offline=True).folder if text else path_of(argument, name)
