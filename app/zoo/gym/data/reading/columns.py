"""Maps columns of tables and keys of JSON to our keys, by the roles that LLaMA-Factory names.

`columns` of an entry in `dataset_info.json` names them for one file, the setting `columns` for all
files of a run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import cast

from zoo.gym.data.reading.turns.values import shown, type_name
from zoo.gym.errors import InputError

PUBLISHED = {
    "prompt": "instruction",
    "query": "input",
    "response": "output",
    "history": "history",
    "messages": "messages",
    "system": "system",
    "tools": "tools",
    "images": "images",
    "videos": "videos",
    "audios": "audios",
    "chosen": "chosen",
    "rejected": "rejected",
    "kto_tag": "kto_tag",
}
"""Role of a column in LLaMA-Factory -> our key."""

_OURS = ("completion", "text", "answer", "label", "forget", "margin", "weight")
ROLES = (*PUBLISHED, *_OURS)
"""The roles that the setting `columns` names."""

_OF_INSTRUCTIONS = {"response", "query", "history"}
"""Roles beside which a prompt is an instruction, as in LLaMA-Factory."""


@dataclass(frozen=True)
class Layout:
    """How the rows of all files are laid out, as far as the settings say.

    Attributes:
        columns: role -> column of the files; empty to detect the format of each row.
        me: the speaker of chats whose messages are to be learned, if they have speakers.
    """

    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    me: str | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Column of the files -> our key."""
        ours = {role: PUBLISHED.get(role, role) for role in self.columns}
        if not _OF_INSTRUCTIONS & self.columns.keys() and "prompt" in ours:
            ours["prompt"] = "prompt"  # a text, or turns
        return {column: ours[role] for role, column in self.columns.items()}


DETECTED = Layout()
"""The format of each row is detected."""


def parse_columns(value: object) -> dict[str, str]:
    """Returns the column of each role.

    Args:
        value: `prompt:Question,response:Answer`, or a mapping.

    Raises:
        InputError: a role is unknown, or a role or a column is named twice.
    """
    pairs = _pairs(value)
    for role, column in pairs:
        if role not in ROLES:
            near = get_close_matches(role, ROLES, n=1)
            mean = f". Did you mean {near[0]!r}?" if near else f": expected {', '.join(ROLES)}"
            raise InputError(f"{shown(role)} is no role of a column{mean}")
        if not column:
            raise InputError(f"expected the name of a column for {role}, got none")
    for names in zip(*pairs, strict=True):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"expected each role and each column once, got {shown(twice)} twice")
    return dict(pairs)


def _pairs(value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        named = cast("Mapping[object, object]", value).items()
        for role, column in named:
            if not isinstance(column, str | int) or isinstance(column, bool):
                raise InputError(f"{role}: expected a column, got {type_name(column)}")
        return [(str(role), str(column)) for role, column in named]
    if not isinstance(value, str) or not value.strip():
        raise InputError("expected roles with columns, such as prompt:Question,response:Answer")
    parts = [part.partition(":") for part in value.split(",")]
    return [(role.strip(), column.strip()) for role, _, column in parts]


def require_columns(where: str, columns: Iterable[str], present: Iterable[str]) -> None:
    """Refuses columns that no row of a file has.

    Args:
        where: the file.
        columns: those that the setting names.
        present: those of the rows.

    Raises:
        InputError: there is one.
    """
    there = list(present)
    for column in columns:
        if column not in there:
            near = get_close_matches(column, there, n=1)
            mean = f". Did you mean {shown(near[0])}?" if near else ""
            names = ", ".join(map(shown, there)) or "text without columns"
            raise InputError(
                f"{where}: columns: no column {shown(column)}: expected one of {names}{mean}"
                if there
                else f"{where}: columns: expected a table or rows of JSON, got {names}",
                hint="for files with different columns, describe each in a dataset_info.json",
            )
