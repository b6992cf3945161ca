"""Parts that the details of a row are made of."""

import datetime as dt
import time
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.table import Table
from rich.text import Text

from zoo.gym.errors import GymError
from zoo.gym.humanize import duration
from zoo.gym.terminal import visible

Part: TypeAlias = tuple[str, "Table | str"]
"""A part of the details: the name of its look in the style sheet, and what it shows."""


def facts(pairs: Iterable[tuple[str, str]]) -> Part:
    """Returns names with their values, aligned; pairs without a value are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for name, value in pairs:
        if value:
            table.add_row(Text(name), Text(visible(value)))
    return "facts", table


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Part:
    """Returns a small table; a column whose name begins with `>` is right-aligned."""
    table = Table.grid(padding=(0, 2))
    for name in head:
        table.add_column(justify="right" if name.startswith(">") else "left", overflow="fold")
    table.add_row(*(Text(name.lstrip(">")) for name in head))
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return "grid", table


def title(text: str) -> Part:
    """Returns the title of what follows."""
    return "title", text


def note(text: str) -> Part:
    """Returns an explanation."""
    return "note", text


def good(text: str) -> Part:
    """Returns what went well."""
    return "good", text


def problem(text: str) -> Part:
    """Returns what needs attention."""
    return "problem", text


def of_error(error: Exception) -> Part:
    """Returns an error with its hint."""
    if isinstance(error, GymError):
        return problem(f"{error.message}\n{error.hint or ''}".strip())
    return problem(str(error))


def day(seconds: float) -> str:
    """Returns a time as day and hour."""
    return time.strftime("%d %b %H:%M", time.localtime(seconds)) if seconds else ""


def time_left(deadline: str | None, now: dt.datetime | None = None) -> str:
    """Returns how long it is to a deadline: `6 d 23 h left`; empty without one.

    >>> time_left("2026-01-03T00:00:00Z", dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    '2 d 0 h left'
    """
    if not deadline:
        return ""
    until = dt.datetime.fromisoformat(deadline.replace("Z", "+00:00"))
    seconds = (until - (now or dt.datetime.now(dt.UTC))).total_seconds()
    if seconds <= 0:
        return "past"
    days, rest = divmod(int(seconds), 86400)
    return f"{days} d {rest // 3600} h left" if days else f"{duration(seconds)} left"


def cell(column: str, text: str) -> Text:
    """Returns a cell of a column; a column whose name begins with `>` is right-aligned."""
    return Text(visible(text), justify="right" if column.startswith(">") else "left")
