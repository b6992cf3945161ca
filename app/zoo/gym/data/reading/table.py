"""Reads csv and tsv files: the first row names the columns, each further row is an example.

A cell is text. Turns, tools and lists of cases are JSON in a cell; cells of flags and ratings are
`true`, `false` or a number, those of weights and margins a number. A row with more or fewer cells
than the header is refused with its file: a wrong separator or an open quote would shift every row
after it.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from zoo.gym.data.reading.jsonl import Row, decode
from zoo.gym.data.reading.keys import LABELS, MARGIN, ROW_WEIGHTS
from zoo.gym.data.reading.streams import data_suffix, read_lines
from zoo.gym.data.reading.turns.flags import FLAG_KEYS
from zoo.gym.data.records import Problem
from zoo.gym.errors import InputError

SUFFIXES = {".csv": ",", ".tsv": "\t"}
"""Suffix of a table -> the separator of its cells."""

_JSON_COLUMNS = frozenset(
    {"messages", "conversations", "history", "instances", "tools", "functions"}
)
_TURN_COLUMNS = frozenset({"prompt", "completion", "chosen", "rejected"})
_TURNS = re.compile(r'\[\s*\{\s*"(role|from|content|value)"\s*:')
_FLAGS = {"true": True, "false": False}


def read_table(path: Path, columns: Mapping[str, str]) -> Iterator[Row | Problem]:
    """Yields the rows of a csv or tsv file in order, and a problem for each bad cell.

    Args:
        path: the file.
        columns: the key that each column stands for; by default its own name in any case.

    Raises:
        InputError: the file has no usable header, a row of another length or an open quote, or is
            not UTF-8.
    """
    rows = _cells(path)
    names = [name.strip() for name in next(rows)[1]]
    _check_header(path, names)
    for line, cells in rows:
        if len(cells) != len(names):
            raise InputError(
                f"{path}:{line}: expected {len(names)} cells as in the header, got {len(cells)}",
                hint="quote cells that contain the separator or a line break",
            )
        try:
            pairs = zip(names, cells, strict=True)
            yield Row(line, {n: _value(_key(n, columns), c) for n, c in pairs if n})
        except InputError as error:
            yield Problem(f"{path}:{line}", error.message)


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the line that each row starts on, and its cells; not the blank lines."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    rows = csv.reader(_text_lines(path), delimiter=_separator(path), strict=True)
    start = 1
    try:
        for cells in rows:
            if cells:
                yield start, cells
            start = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{start}: not a row of a table: {error}") from None


def _text_lines(path: Path) -> Iterator[str]:
    for number, raw in read_lines(path):
        if b"\0" in raw:
            raise InputError(f"{path}:{number}: not text: expected a table, got a zero byte")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            wrong = raw[error.start]
            raise InputError(
                f"{path}:{number}: not UTF-8 text: got the byte 0x{wrong:02x}",
                hint="save the table as UTF-8: Excel calls it CSV UTF-8",
            ) from None


def _separator(path: Path) -> str:
    """Returns the separator of the suffix, or the one of the header if that has another one."""
    usual = SUFFIXES[data_suffix(path)]
    header = next(filter(str.strip, _text_lines(path)), "")
    return max((usual, ",", ";", "\t"), key=header.count)


def _check_header(path: Path, names: list[str]) -> None:
    twice = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if twice:
        raise InputError(f"{path}:1: duplicate column {twice[0][:60]!r}: expected it once")


def _key(name: str, columns: Mapping[str, str]) -> str:
    """Returns the key that a column stands for; where columns are named, others are plain text."""
    return columns.get(name, "") if columns else name.lower()


def _value(name: str, cell: str) -> object:
    """Returns what a cell contains; an empty one is null in a column that is not text.

    Raises:
        InputError: a cell that must be JSON is not.
    """
    text = cell.strip()
    if name in _JSON_COLUMNS or (name in _TURN_COLUMNS and _TURNS.match(text)):
        return _json(name, text)
    if name in FLAG_KEYS or name in LABELS:
        return _FLAGS.get(text.lower(), _number(text))
    if name in ROW_WEIGHTS or name == MARGIN:
        return _number(text)
    return cell


def _json(name: str, text: str) -> object:
    if not text:
        return None
    try:
        return decode(text.encode("utf-8"))
    except InputError as error:
        raise InputError(f"{name!r}: expected JSON in the cell: {error.message}") from None


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text or None
