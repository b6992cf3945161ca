"""What a teacher may propose: add, modify, delete and merge lessons, as JSON.

The rule is the published one (arXiv:2510.08191) with enforced limits: unknown labels, lessons that
are too long, and more lessons than the limit are refused and counted.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
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
        labels = " ".join(item_id[:LABEL] for item_id in self.removed)
        return " ".join(filter(None, [self.op, labels, self.added.text if self.added else ""]))


class UnreadableError(InputError):
    """A teacher's answer has no edits that can be read."""


def parse_edits(answer: str) -> list[Mapping[str, object]]:
    """Returns the proposals in a teacher's answer, unchecked.

    Text around the JSON, a code fence and superfluous commas are tolerated.

    Raises:
        UnreadableError: there is no JSON with edits.
    """
    text = answer.rpartition("</think>")[2][-_MOST_CHARACTERS:]
    fenced = text.split(_FENCE)[1:-1:2]  # text after the last fence is in none
    for candidate in (*reversed(fenced), text):
        edits = _edits_in(_first_value(candidate))
        if edits is not None:
            return edits
    raise UnreadableError('edits: expected JSON {"edits": [...]}, got none', code="experience.edit")


def _first_value(text: str) -> object:
    """Returns the JSON value that begins at the first bracket of a text, None without one."""
    decoder = json.JSONDecoder()
    for start in sorted(text.find(bracket) for bracket in "{[" if bracket in text):
        for candidate in (text[start:], _COMMA.sub(r"\1", text[start:])):
            with suppress(ValueError, RecursionError):
                value: object = decoder.raw_decode(candidate)[0]
                return value
    return None


def _edits_in(value: object) -> list[Mapping[str, object]] | None:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        value = fields.get("edits", [fields] if "op" in fields else None)
    if not isinstance(value, list):
        return None
    edits = cast("list[object]", value)
    are_edits = all(isinstance(edit, dict) for edit in edits)
    return cast("list[Mapping[str, object]]", edits) if are_edits else None


def check_edit(proposal: Mapping[str, object], library: Library, origin: Item) -> Edit | None:
    """Returns a proposal as an edit of the library; None if it changes nothing.

    `proposal` has `op` or `operation`, `id` or `ids`, and `text`; `origin` has the other fields of
    a new lesson.

    Raises:
        InputError: the operation or a label is unknown, or the text is no lesson.
    """
    op = str(proposal.get("op", proposal.get("operation", ""))).lower()
    if op == "none":
        return None
    if op not in _OPERATIONS:
        raise InputError(
            f"edit: expected {', '.join(_OPERATIONS)}, got another operation",
            code="experience.edit",
        )
    ids = proposal.get("ids") or proposal.get("id") or []
    labels = cast("list[object]", ids) if isinstance(ids, list) else [ids]
    items = [] if op == "add" else [_labelled(label, library) for label in labels]
    expected = {"add": 0, "modify": 1, "delete": 1}.get(op)
    if len(items) < 2 if expected is None else len(items) != expected:
        raise InputError(
            f"edit: {op}: expected other labels than {len(items)}", code="experience.edit"
        )
    removed = tuple(dict.fromkeys(item.id for item in items))
    if op == "delete":
        return Edit(op, removed, None)
    text = lesson_text(str(proposal.get("text") or ""))
    sources = dict.fromkeys([*(s for item in items for s in item.sources), *origin.sources])
    added = replace(origin, text=text, parents=removed, sources=tuple(sources))
    if any(item.text == text for item in library.items if item.id not in removed):
        return Edit("delete", removed, None) if removed and op == "merge" else None
    return None if removed == (added.id,) else Edit(op, removed, added)


def _labelled(label: object, library: Library) -> Item:
    start = label.strip("[] ").lower() if isinstance(label, str) else ""
    item = library.find(start) if len(start) >= LABEL else None
    if item is None:
        raise InputError(
            "edit: expected the label of a lesson, got another one", code="experience.edit"
        )
    return item
