"""The names that a round's storage has, by kind."""

import re
from enum import StrEnum

from zoo.gym.rounds.log.tiles import ENTRY_BYTES
from zoo.gym.rounds.storage.base import MOST_BYTES


class Kind(StrEnum):
    """What is stored under a name."""

    MANIFEST = "manifest"
    ENTRY = "entry"
    HEAD = "head"
    TILE = "tile"
    WITNESS = "witness"
    CHUNK = "chunk"


_HEX = "[0-9a-f]{64}"
_FORMS = {
    Kind.MANIFEST: r"manifest\.json",
    Kind.ENTRY: rf"inbox/{_HEX}\.json",
    Kind.HEAD: r"log/checkpoint",
    Kind.TILE: r"log/tile/(entries|\d{1,2})/(x\d{3}/){0,5}\d{3}(\.p/\d{1,3})?",
    Kind.WITNESS: rf"witness/{_HEX}",
    Kind.CHUNK: rf"chunks/[0-9a-f]{{2}}/{_HEX}",
}
NAMES = "|".join(_FORMS.values())
"""A regular expression of all names."""

_PATTERNS = {kind: re.compile(form, re.ASCII) for kind, form in _FORMS.items()}

MOST = {
    Kind.MANIFEST: ENTRY_BYTES,
    Kind.ENTRY: ENTRY_BYTES,
    Kind.HEAD: 100_000,
    Kind.TILE: MOST_BYTES,
    Kind.WITNESS: 100_000,
    Kind.CHUNK: MOST_BYTES,
}
"""The most bytes by kind."""


def kind_of(name: str) -> Kind | None:
    """Returns what a name is for, None for a name that no round has."""
    return next((kind for kind, form in _PATTERNS.items() if form.fullmatch(name)), None)
