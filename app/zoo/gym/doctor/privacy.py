"""Removes private data from a report: the user's paths, and secrets."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar

from zoo.backends.machine.installing import clone_folder
from zoo.gym.paths import folders
from zoo.models import cache_folder

SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY", re.IGNORECASE)
"""Environment variables that contain a secret."""

TOKENS = re.compile(r"\b(?:hf_|sk-|ghp_)[A-Za-z0-9_-]{6,}")
"""What access tokens look like."""

_SHORTEST_SECRET = 6

Value = TypeVar("Value")


def scrub(value: Value) -> Value:
    """Returns a dataclass, list, mapping or string with private data removed from every string.

    Must be called before lines are wrapped: a path that is split in two is not found.
    """
    return _scrubbed(value, [*secrets(), *private_folders()])  # type: ignore[return-value]


def secrets() -> Iterator[tuple[re.Pattern[str], str]]:
    """Yields patterns of secrets with their replacements."""
    yield TOKENS, "<token>"
    for name, value in os.environ.items():
        if SECRET_NAMES.search(name) and len(value) >= _SHORTEST_SECRET:
            yield re.compile(re.escape(value)), "<token>"


def private_folders() -> list[tuple[re.Pattern[str], str]]:
    """Returns patterns of paths in folders of this user, deepest first, with the folder's role."""
    used, clone = folders(), clone_folder()
    roles = {
        "state folder": (used.config, used.data, used.cache, used.log),
        "model cache": (cache_folder(),),
        "environment": (Path(sys.prefix),),
        "temporary folder": (Path(tempfile.gettempdir()),),
        "program": (Path(__file__).parents[3], *([clone] if clone else [])),
        "working folder": (Path.cwd(),),
        "home folder": (Path.home(),),
    }
    spelled = {
        text: role
        for role, paths in roles.items()
        for path in paths
        for text in (str(path), str(path.resolve()), path.as_posix())
        if path != Path(path.anchor)
    }
    return [(_below(text), f"<{spelled[text]}>") for text in sorted(spelled, key=len, reverse=True)]


def _below(folder: str) -> re.Pattern[str]:
    """Matches a folder and the rest of the path, up to the closing quote or a space."""
    start = re.escape(folder)
    return re.compile(rf"(?<=['\"]){start}(?![\w.-])[^'\"]*|{start}(?![\w.-])[^\s'\",;:]*")


def _scrubbed(value: object, patterns: Sequence[tuple[re.Pattern[str], str]]) -> object:
    if isinstance(value, str):
        for pattern, stands in patterns:
            value = pattern.sub(stands, value)
        return value
    if isinstance(value, Mapping):
        return {key: _scrubbed(inner, patterns) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_scrubbed(inner, patterns) for inner in value)
    if is_dataclass(value) and not isinstance(value, type):
        held = {name.name: getattr(value, name.name) for name in fields(value)}
        return replace(value, **{name: _scrubbed(inner, patterns) for name, inner in held.items()})
    return value
