"""What a user may contribute: files, folders, runs, and models that a program has in memory."""

import os
import tempfile
from pathlib import Path
from typing import Any

from zoo.gym.arguments import model_folder, path_of
from zoo.gym.errors import InputError
from zoo.gym.jobs.run import Run, RunResult
from zoo.gym.tuned.source import Source, source_at
from zoo.models.folder import read_config

_EXPECTED = (
    "expected a delta file, a folder of an adapter or a model, the result of a training, or a "
    "model of transformers or peft"
)


def source_of(model: object, scratch: Path) -> tuple[Path, str]:
    """Returns the path of a fine-tune and the name of its base, by its own record.

    Args:
        model: see `DeltaSoup.contribute`.
        scratch: where models in memory are written, each to a new folder.

    Returns:
        A delta file, or a folder of an adapter or of full weights; and the name of its base, empty
        if it records none.

    Raises:
        InputError: it is nothing that can be contributed.
        NotAvailableError: there is no such file or model.
    """
    if isinstance(model, RunResult):
        return _recorded(source_at(model.model, Run(model.folder)))
    if isinstance(model, str | os.PathLike):
        return _recorded(source_at(model_folder("model", model)))
    live: Any = model
    if not hasattr(live, "save_pretrained"):
        raise InputError(
            f"model: {_EXPECTED}, got a value of type {type(model).__name__}",
            code="published.bad_model",
        )
    folder = Path(tempfile.mkdtemp(prefix="model-", dir=scratch))
    adapters: Any = getattr(live, "peft_config", None)
    if not adapters:
        live.save_pretrained(folder)
        return folder, str(getattr(live.config, "_name_or_path", "") or "")
    return _live_adapter(live, dict(adapters), folder)


def _live_adapter(live: Any, adapters: dict[str, Any], folder: Path) -> tuple[Path, str]:  # noqa: ANN401
    if len(adapters) != 1:
        raise InputError(
            f"model: expected one adapter, got {', '.join(sorted(adapters))}",
            hint="model.delete_adapter(NAME) removes one",
            code="published.bad_model",
        )
    (name, config), *_ = adapters.items()
    live.save_pretrained(folder)
    inside = folder / name
    path = inside if inside.is_dir() else folder
    return path, str(config.base_model_name_or_path or "")


def _recorded(source: Source) -> tuple[Path, str]:
    name: object = source.recorded and source.recorded.id
    if name is None and source.artifact == "model" and source.path.is_dir():
        name = read_config(source.path).get("_name_or_path")
    return source.path, str(name or "")


def base_folder(name: str | Path, argument: str) -> Path:
    """Returns the folder of a base that is on this machine.

    Raises:
        InputError: it is no name or path.
        NotAvailableError: it is not here; nothing is downloaded.
    """
    from zoo.models import resolve

    text = str(name)
    return resolve(text, offline=True).folder if text else path_of(argument, name)
