"""Remembers the folders of bases, so that a delta or a round finds its base again.

Both record a base's identity, and a name that only finds models of the hub and imported ones. A
remembered folder is a suggestion: the caller checks its weights, whatever became of them since.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from zoo.gym.data.own_tokenizer import stated_parts
from zoo.gym.delta.reading.weights import Weights, open_weights
from zoo.gym.errors import GymError, InputError, StorageError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.models.resolve import model_of_folder

Check = Callable[[Weights], object]
"""Raises an InputError for weights that are not the wanted ones."""

_FOLDER = "folder"


def remember_base(folder: Path) -> None:
    """Remembers the folder of a base, unless a name finds it; without a place to write, does not.

    There is one file for each folder, so that processes need no lock.
    """
    if model_of_folder(folder) is not None:
        return
    path = str(folder.resolve())
    name = hashlib.sha256(json.dumps(path).encode()).hexdigest()[:16]
    with suppress(StorageError):
        write_beside(ensure_folder(_top()) / f"{name}.json", json.dumps({_FOLDER: path}))


def find_base(name: str, check: Check) -> Path | None:
    """Returns the folder of the right base: of the recorded name, or else the one used last.

    Args:
        name: that a delta or a round records.
        check: refuses weights of another base.

    Returns:
        The folder; None if no such folder is known.

    Raises:
        InputError: folders of that base have other chat templates, and none has the name alone.
    """
    remembered = _known()
    for places in ([folder for folder in remembered if folder.name == Path(name).name], remembered):
        base = next((folder for folder in places if is_base(folder, check)), None)
        if base is None:
            continue
        for other in places:
            if _template(other) != _template(base) and is_base(other, check):
                raise InputError(
                    f"expected one folder of the base {name}, got {base} and {other}, whose "
                    "chat templates differ",
                    code="delta.ambiguous_base",
                )
        return base
    return None


def _template(folder: Path) -> object:
    try:
        return stated_parts(folder).get("chat_template")
    except InputError:  # damaged: opening it says so
        return None


def _known() -> list[Path]:
    """Returns the remembered folders that are there, the one used last first."""
    files = sorted(_top().glob("*.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    folders = [(read_json_object(file) or {}).get(_FOLDER) for file in files]
    return [Path(folder) for folder in folders if isinstance(folder, str) and Path(folder).is_dir()]


def is_base(folder: Path, check: Check) -> bool:
    """Returns whether a folder has a model that passes a check."""
    try:
        check(open_weights(folder))
    except (GymError, OSError, ValueError):  # removed, no longer a model, or another one
        return False
    return True


def _top() -> Path:
    return folders().data / "bases"
