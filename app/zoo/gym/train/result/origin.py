"""Records the origin of a result as digests, without names or text of the data."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY
from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.errors import InputError
from zoo.gym.files import read_json_object, write_beside
from zoo.gym.train.run_folder.base import BASE_KEY, WEIGHTS_PART, form_in, stored_weights_digest
from zoo.gym.train.run_folder.env import remembered
from zoo.gym.train.run_folder.settings import read_env

ORIGIN_FILE = "zoo-gym.json"
"""The file in a result with the digests of what it was made from."""

SYSTEM_KEY = "system_prompt"
"""In `env.json` of a run: the text of the system prompt."""

DIGEST_KEY = "system_prompt_sha256"
"""In a result and in a delta's recipe: its digest."""

JOINT_KEY = "prompt_joint"
"""In `env.json` of a run, in a result and in a delta's recipe: what ends a prompt, if the base has
no chat template and most rows were of instructions and outputs."""


def remember_form(
    env_file: Path, system: str, joint: str, own: Mapping[str, object], *, resumes: bool
) -> None:
    """Stores how a run asks, unless it has stored that before; see `check_same_tokenizer`."""
    check_same_tokenizer(env_file, own, resumes=resumes)
    remembered(env_file, SYSTEM_KEY, lambda: system)
    remembered(env_file, JOINT_KEY, lambda: joint)


def check_same_tokenizer(env_file: Path, own: Mapping[str, object], *, resumes: bool) -> None:
    """Stores what the tokenizer of a run has otherwise than the base's, and refuses another.

    Args:
        env_file: the run's `env.json`.
        own: what it has from its first adapter or the setting `template`.
        resumes: whether the run has checkpoints; those of earlier versions used the base's alone.

    Raises:
        InputError: the run began with another.
    """
    before = read_env(env_file).get(TOKENIZER_KEY, {} if resumes else own)
    if remembered(env_file, TOKENIZER_KEY, lambda: dict(own)) != own or before != own:
        raise InputError(
            "expected the chat template and end of texts that the run began with, got others",
            hint="put the file of template, or the adapter's tokenizer files, back; or start a new "
            "run",
        )


def joint_of(origin: Mapping[str, object]) -> str:
    """Returns what ends a prompt, from the record of a run, a result or a delta."""
    return BLANK_LINE if origin.get(JOINT_KEY) == BLANK_LINE else ""


def joint_of_result(folder: Path) -> str:
    """Returns what ends a prompt to a result; nothing for another folder."""
    return joint_of(read_json_object(folder / ORIGIN_FILE) or {})


def keep_joint(folder: Path, recipe: Mapping[str, object]) -> None:
    """Writes what ends a prompt, as a delta's recipe has it, into the folder rebuilt from it."""
    if joint := joint_of(recipe):
        content = read_json_object(folder / ORIGIN_FILE) or {"v": 1}
        text = json.dumps({**content, JOINT_KEY: joint}, indent=2) + "\n"
        write_beside(folder / ORIGIN_FILE, text)


def doubt_of_base(folder: Path) -> str | None:
    """Returns why this base model may have been trained on held-out rows, or None."""
    if (folder / ORIGIN_FILE).is_file():
        return (
            "the base is itself the result of a run: it may have been trained on some of the "
            "held-out rows"
        )
    return None


def digest_of(system: str) -> str:
    """Returns the SHA-256 of a system prompt, 64 hex characters."""
    return hashlib.sha256(system.encode("utf-8")).hexdigest()


def is_result(folder: Path) -> bool:
    """Returns whether a folder has the record that a run of ours writes into its result."""
    found = read_json_object(folder / ORIGIN_FILE) or {}
    return isinstance(found.get("v"), int) and {"data", DIGEST_KEY, BASE_KEY} <= found.keys()


def write_origin(result: Path, env_file: Path) -> None:
    """Writes the digests of a result's data, system prompt and base weights into the result."""
    env = read_env(env_file)
    system, weights = env.get(SYSTEM_KEY), stored_weights_digest(env)
    content: dict[str, Any] = {
        "v": 1,
        "data": env.get("data"),
        DIGEST_KEY: digest_of(system) if isinstance(system, str) and system else None,
        BASE_KEY: {WEIGHTS_PART: weights, **form_in(env)} if weights else None,
    }
    if joint := joint_of(env):
        content[JOINT_KEY] = joint
    text = json.dumps(content, indent=2) + "\n"
    write_beside(result / ORIGIN_FILE, text)
