"""Stores how a run asks, and writes the record of what its result was made from."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY
from zoo.gym.delta.origin.digests import BASE_KEY, WEIGHTS_PART, form_in, stored_weights_digest
from zoo.gym.delta.origin.record import (
    BITS_KEY,
    DIGEST_KEY,
    JOINT_KEY,
    ORIGIN_FILE,
    SYSTEM_KEY,
    digest_of,
    joint_of,
)
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside
from zoo.gym.train.run_folder.env import remembered
from zoo.gym.train.run_folder.settings import read_env, settings_in


def remember_form(
    env_file: Path, system: str, joint: str, tokens: Mapping[str, object], *, resumes: bool
) -> None:
    """Stores how a run asks, unless it has stored that before; see `check_same_tokenizer`."""
    check_same_tokenizer(env_file, tokens, resumes=resumes)
    remembered(env_file, SYSTEM_KEY, lambda: system)
    remembered(env_file, JOINT_KEY, lambda: joint)


def check_same_tokenizer(env_file: Path, tokens: Mapping[str, object], *, resumes: bool) -> None:
    """Stores how the tokenizer of a run differs from the base's, and refuses another.

    Args:
        env_file: the run's `env.json`.
        tokens: what it has from its first adapter or the setting `template`.
        resumes: whether the run has checkpoints; those of earlier versions used the base's alone.

    Raises:
        InputError: the run began with another.
    """
    stored = read_env(env_file).get(TOKENIZER_KEY, {} if resumes else tokens)
    if remembered(env_file, TOKENIZER_KEY, lambda: dict(tokens)) != tokens or stored != tokens:
        raise InputError(
            "expected the chat template and end of texts that the run began with, got others",
            hint="put the file of template, or the adapter's tokenizer files, back; or start a new "
            "run",
            code="train.other_template",
        )


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
    settings = settings_in(env_file)
    if settings is not None and settings.delta_bits is not None:
        content[BITS_KEY] = settings.delta_bits
    if joint := joint_of(env):
        content[JOINT_KEY] = joint
    text = json.dumps(content, indent=2) + "\n"
    write_beside(result / ORIGIN_FILE, text)
