"""What a teacher may propose: add, modify, delete and merge lessons, as JSON.

The rule is the published one (arXiv:2510.08191) with limits that the code keeps: lessons that no
label names, lessons that are too long, and more than the limit are refused and counted.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from zoo.gym.errors import InputError
from zoo.gym.experience.library.item import Item, lesson_text
from zoo.gym.experience.library.library import Library

LABEL = 6
"""The digits of an id that a teacher sees."""

_OPERATIONS = ("add", "modify", "delete", "merge", "none")
_FENCE = "```"
_COMMA = re.compile(r",(\s*[\]}])")
_MOST_CHARACTERS = 100_000

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["edits"],
    "properties": {
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["op", "ids", "text"],
                "properties": {
                    "op": {"type": "string", "enum": list(_OPERATIONS)},
                    "ids": {"type": "array", "items": {"type": "string"}},
                    "text": {"type": "string"},
                },
            },
        }
    },
}
"""The form of a teacher's answer, for servers that support it."""


@dataclass(frozen=True)
class Edit:
    """One proposal that can be made.

    Attributes:
        op: `add`, `modify`, `delete` or `merge`.
        removed: the ids of the lessons that it takes away.
        added: the lesson that it adds; None for a deletion.
    """

    op: str
    removed: tuple[str, ...]
    added: Item | None

    def apply(self, library: Library) -> Library:
        """Returns the library after the edit.

        Raises:
            InputError: the library would be too large.
        """
        return library.changed(self.removed, () if self.added is None else (self.added,))

    @property
    def words(self) -> str:
        """The edit in words, for teachers and logs."""
        gone = " ".join(one[:LABEL] for one in self.removed)
        return " ".join(filter(None, [self.op, gone, self.added.text if self.added else ""]))


class UnreadableError(InputError):
    """A teacher's answer has no edits that can be read."""


def parse_edits(answer: str) -> list[Mapping[str, object]]:
    """Returns the proposals in a teacher's answer, unchecked.

    Text around the JSON, a code fence and commas too many are forgiven.

    Raises:
        UnreadableError: there is no JSON with edits.
    """
    text = answer.rpartition("</think>")[2][-_MOST_CHARACTERS:]
    fenced = text.split(_FENCE)[1:-1:2]  # what is behind the last fence is in none
    for candidate in (*reversed(fenced), text):
        for found in _values(candidate):
            edits = _edits_in(found)
            if edits is not None:
                return edits
    raise UnreadableError('edits: expected JSON {"edits": [...]}, got none')


def _values(text: str) -> Sequence[object]:
    """Returns the JSON value that a text is, or that begins at its first bracket."""
    starts = [place for mark in "{[" if (place := text.find(mark)) >= 0]
    decoder = json.JSONDecoder()
    for place in sorted(starts):
        for candidate in (text[place:], _COMMA.sub(r"\1", text[place:])):
            try:
                found: object = decoder.raw_decode(candidate)[0]
            except (ValueError, RecursionError):
                continue
            return [found]
    return []


def _edits_in(found: object) -> list[Mapping[str, object]] | None:
    if isinstance(found, dict):
        fields = cast("dict[str, object]", found)
        found = fields.get("edits", [fields] if "op" in fields else None)
    if not isinstance(found, list):
        return None
    listed = cast("list[object]", found)
    if not all(isinstance(one, dict) for one in listed):
        return None
    return cast("list[Mapping[str, object]]", listed)


def check_edit(given: Mapping[str, object], library: Library, origin: Item) -> Edit | None:
    """Returns a proposal as an edit of the library; None if it changes nothing.

    Args:
        given: the proposal, with `op` or `operation`, `id` or `ids`, and `text`.
        library: the library as the teacher sees it.
        origin: a lesson without text: what a new one has besides.

    Raises:
        InputError: the operation or a label is unknown, or the text is no lesson.
    """
    op = str(given.get("op", given.get("operation", ""))).lower()
    if op == "none":
        return None
    if op not in _OPERATIONS:
        raise InputError(f"edit: expected {', '.join(_OPERATIONS)}, got another operation")
    labels = given.get("ids") or given.get("id") or []
    listed = cast("list[object]", labels) if isinstance(labels, list) else [labels]
    found = [] if op == "add" else [_labelled(label, library) for label in listed]
    expected = {"add": 0, "modify": 1, "delete": 1}.get(op)
    if (expected is None and len(found) < 2) or (expected is not None and len(found) != expected):
        raise InputError(f"edit: {op}: expected other labels than {len(found)}")
    removed = tuple(dict.fromkeys(item.id for item in found))
    if op == "delete":
        return Edit(op, removed, None)
    text = lesson_text(str(given.get("text") or ""))
    sources = dict.fromkeys([*(one for item in found for one in item.sources), *origin.sources])
    added = replace(origin, text=text, parents=removed, sources=tuple(sources))
    if any(item.text == text for item in library.items if item.id not in removed):
        return Edit("delete", removed, None) if removed and op == "merge" else None
    return None if removed == (added.id,) else Edit(op, removed, added)


def _labelled(label: object, library: Library) -> Item:
    start = label.strip("[] ").lower() if isinstance(label, str) else ""
    item = library.find(start) if len(start) >= LABEL else None
    if item is None:
        raise InputError("edit: expected the label of a lesson, got another one")
    return item
