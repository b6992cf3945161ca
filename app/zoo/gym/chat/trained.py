"""The system prompt that a model was trained with, so that a chat can begin as training did.

The words stay in the run folder. A result or a delta that leaves it carries their SHA-256 and the
fingerprint of the data: on the machine of the run they are found again, elsewhere a chat can say
that there were such words.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.gym.errors import InputError
from zoo.gym.jobs import run_folders
from zoo.gym.train.origin import DIGEST_KEY, ORIGIN_FILE, SYSTEM_KEY, digest_of
from zoo.models.folder import read_object


@dataclass(frozen=True)
class Trained:
    """How training began its chats.

    Attributes:
        system: the system prompt; empty where there was none or it is not known.
        is_missing: there was one, and its words are not on this machine.
    """

    system: str = ""
    is_missing: bool = False


def of_run(folder: Path) -> Trained:
    """Returns what a run has stored; nothing for a run from before it did."""
    system = _env(folder).get(SYSTEM_KEY)
    return Trained(system if isinstance(system, str) else "")


def of_result(folder: Path) -> Trained:
    """Returns what a result folder says, wherever it lies now."""
    path = folder / ORIGIN_FILE
    return _found(read_object(path)) if path.is_file() else Trained()


def of_delta(file: Path) -> Trained:
    """Returns what a delta file says."""
    from zoo.gym.delta import load_delta

    header = load_delta(file).header
    return _found({"data": header.data, DIGEST_KEY: header.recipe.get(DIGEST_KEY)})


def _found(origin: dict[str, Any]) -> Trained:
    digest = origin.get(DIGEST_KEY)
    if not isinstance(digest, str):
        return Trained()
    for run in run_folders():
        env = _env(run.folder)
        system = str(env.get(SYSTEM_KEY) or "")
        if env.get("data") == origin.get("data") and digest_of(system) == digest:
            return Trained(system)
    return Trained(is_missing=True)


def _env(folder: Path) -> dict[str, Any]:
    try:
        return read_object(folder / "env.json")
    except (InputError, OSError):  # a damaged run is no reason to refuse a chat with another one
        return {}
