"""The names that a round's storage has, by kind."""

import re
from enum import StrEnum

from zoo.gym.rounds.log.tiles import ENTRY_BYTES
from zoo.gym.rounds.storage.base import MOST_BYTES


class FileKind(StrEnum):
    """What is stored under a name."""

    MANIFEST = "manifest"
    ENTRY = "entry"
    HEAD = "head"
    TILE = "tile"
    WITNESS = "witness"
    CHUNK = "chunk"


_HEX = "[0-9a-f]{64}"
_FORMS = {
    FileKind.MANIFEST: r"manifest\.json",
    FileKind.ENTRY: rf"inbox/{_HEX}\.json",
    FileKind.HEAD: r"log/checkpoint",
    FileKind.TILE: r"log/tile/(entries|\d{1,2})/(x\d{3}/){0,5}\d{3}(\.p/\d{1,3})?",
    FileKind.WITNESS: rf"witness/{_HEX}",
    FileKind.CHUNK: rf"chunks/[0-9a-f]{{2}}/{_HEX}",
}
NAMES = "|".join(_FORMS.values())
"""A regular expression of all names."""

_PATTERNS = {kind: re.compile(form, re.ASCII) for kind, form in _FORMS.items()}

MOST = {
    FileKind.MANIFEST: ENTRY_BYTES,
    FileKind.ENTRY: ENTRY_BYTES,
    FileKind.HEAD: 100_000,
    FileKind.TILE: MOST_BYTES,
    FileKind.WITNESS: 100_000,
    FileKind.CHUNK: MOST_BYTES,
}
"""The most bytes by kind."""


def file_kind(name: str) -> FileKind | None:
    """Returns what a name is for, None for a name that no round has."""
    return next((kind for kind, form in _PATTERNS.items() if form.fullmatch(name)), None)
