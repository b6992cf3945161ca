"""Remembers the folders of bases, so that a delta or a round finds its base again.

Both record a base's identity, and a name that only finds models of the hub and imported ones. A
remembered folder is a suggestion: the caller checks its weights, whatever became of them since.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from zoo.gym.delta.reading.weights import Weights, open_weights
from zoo.gym.errors import GymError, StorageError
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


def find_base(check: Check) -> Path | None:
    """Returns the folder of the right base that was used last; None if no such folder is known."""
    files = sorted(_top().glob("*.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for file in files:
        folder = (read_json_object(file) or {}).get(_FOLDER)
        if isinstance(folder, str) and is_base(Path(folder), check):
            return Path(folder)
    return None


def is_base(folder: Path, check: Check) -> bool:
    """Returns whether a folder has a model that passes a check."""
    try:
        check(open_weights(folder))
    except (GymError, OSError, ValueError):  # removed, no longer a model, or another one
        return False
    return True


def _top() -> Path:
    return folders().data / "bases"
