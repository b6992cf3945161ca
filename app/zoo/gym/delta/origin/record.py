"""The record of what a result or a delta was made from: digests, no names or text of the data."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.delta.origin.digests import BASE_KEY
from zoo.gym.files import read_json_object, write_beside

ORIGIN_FILE = "zoo-gym.json"
"""The file in a result with the digests of what it was made from."""

SYSTEM_KEY = "system_prompt"
"""In `env.json` of a run: the text of the system prompt."""

DIGEST_KEY = "system_prompt_sha256"
"""In a result and in a delta's recipe: its digest."""

JOINT_KEY = "prompt_joint"
"""In `env.json` of a run, in a result and in a delta's recipe: what ends a prompt, if the base has
no chat template and most rows were of instructions and outputs."""


BITS_KEY = "delta_bits"
"""In a result: the bits that the factors of the adapter were trained in."""


def trained_bits(source: Path) -> Literal[1, 2, 4, 8] | None:
    """Returns the bits that an adapter was trained in, a folder or a file in it; None for none."""
    folder = source if source.is_dir() else source.parent
    bits = (read_json_object(folder / ORIGIN_FILE) or {}).get(BITS_KEY)
    return bits if bits in (1, 2, 4, 8) else None


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
    record = read_json_object(folder / ORIGIN_FILE) or {}
    return isinstance(record.get("v"), int) and {"data", DIGEST_KEY, BASE_KEY} <= record.keys()
