"""Finds the system prompt that a model was trained with, so that a chat can start with it.

The text stays in the run folder. A result or a delta contains only its SHA-256 and the fingerprint
of the data: on the machine of the run the text can be found again; elsewhere chat can only say that
there was a system prompt.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.gym.errors import InputError
from zoo.gym.jobs import run_folders
from zoo.gym.train.result.origin import DIGEST_KEY, ORIGIN_FILE, SYSTEM_KEY, digest_of
from zoo.models.folder import read_object


@dataclass(frozen=True)
class Trained:
    """The system prompt used in training.

    Attributes:
        system: the text; empty if there was none or it is unknown.
        is_missing: there was one, but its text is not on this machine.
    """

    system: str = ""
    is_missing: bool = False


def of_run(folder: Path) -> Trained:
    """Returns what a run has stored; empty for runs of older versions."""
    system = _env(folder).get(SYSTEM_KEY)
    return Trained(system if isinstance(system, str) else "")


def of_result(folder: Path) -> Trained:
    """Returns what a result folder records, wherever it is now."""
    path = folder / ORIGIN_FILE
    return _found(read_object(path)) if path.is_file() else Trained()


def of_delta(file: Path) -> Trained:
    """Returns what a delta file records."""
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
    except (InputError, OSError):  # a damaged run must not prevent a chat with another one
        return {}
