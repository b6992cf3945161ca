"""Finds how a model was asked in training, so that a chat asks the same way.

The text of a system prompt stays in the run folder. A result or a delta contains only its SHA-256
and the fingerprint of the data: on the machine of the run the text can be found again; elsewhere
chat can only say that there was a system prompt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoo.gym.data.own_tokenizer import own_in
from zoo.gym.delta.origin.record import DIGEST_KEY, ORIGIN_FILE, SYSTEM_KEY, digest_of, joint_of
from zoo.gym.errors import InputError
from zoo.gym.jobs import run_folders
from zoo.models.folder import read_object


@dataclass(frozen=True)
class Trained:
    """The form of a prompt in training.

    Attributes:
        system: the system prompt; empty if there was none or it is unknown.
        is_missing: there was one, but its text is not on this machine.
        joint: what ends a prompt, for a model without a chat template.
        tokenizer: of a delta, what its tokenizer has otherwise than the base's.
        record: what a result or a delta says of its base, see `warn_of_other_form`.
    """

    system: str = ""
    is_missing: bool = False
    joint: str = ""
    tokenizer: Mapping[str, Any] = field(default_factory=dict[str, Any])
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])


def of_run(folder: Path) -> Trained:
    """Returns what a run has stored; empty for runs of older versions."""
    env = _env(folder)
    system = env.get(SYSTEM_KEY)
    return Trained(system if isinstance(system, str) else "", joint=joint_of(env))


def of_result(folder: Path) -> Trained:
    """Returns what a result folder records, wherever it is now."""
    path = folder / ORIGIN_FILE
    if not path.is_file():
        return Trained()
    origin = read_object(path)
    return replace(_found(origin), joint=joint_of(origin), record=origin)


def of_delta(file: Path) -> Trained:
    """Returns what a delta file records."""
    from zoo.gym.delta import load_delta

    header = load_delta(file).header
    found = _found({"data": header.data, DIGEST_KEY: header.recipe.get(DIGEST_KEY)})
    own = own_in(header.recipe)
    return replace(found, joint=joint_of(header.recipe), tokenizer=own, record=header.recipe)


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
