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

from zoo.gym.data.reading.files import data_suffix, read_lines
from zoo.gym.data.reading.jsonl import Row, decode
from zoo.gym.data.reading.keys import LABELS, MARGIN, ROW_WEIGHTS
from zoo.gym.data.reading.turns.chat import FLAG_KEYS
from zoo.gym.data.records import Problem
from zoo.gym.errors import InputError

SUFFIXES = {".csv": ",", ".tsv": "\t"}

_JSON_COLUMNS = frozenset(
    {"messages", "conversations", "history", "instances", "tools", "functions"}
)
_TURN_COLUMNS = frozenset({"prompt", "completion", "chosen", "rejected"})
_TURNS = re.compile(r'\[\s*\{\s*"(role|from|content|value)"\s*:')
_FLAGS = {"true": True, "false": False}


def read_table(path: Path, columns: Mapping[str, str]) -> Iterator[Row | Problem]:
    """Yields the rows of a csv or tsv file in order, and a problem for each bad cell.

    Args:
        columns: the key that each column stands for; by default its own name in any case.

    Raises:
        InputError: the file has no usable header, a row of another length or an open quote, or is
            not UTF-8.
    """
    rows = _cells(path)
    names = [name.strip() for name in next(rows)[1]]
    twice = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if twice:
        raise InputError(
            f"{path}:1: duplicate column {twice[0][:60]!r}: expected it once",
            code="data.duplicate_key",
        )
    # where columns are named, others are plain text
    keys = [columns.get(name, "") if columns else name.lower() for name in names]
    for line, cells in rows:
        if len(cells) != len(names):
            raise InputError(
                f"{path}:{line}: expected {len(names)} cells as in the header, got {len(cells)}",
                hint="quote cells that contain the separator or a line break",
                code="data.bad_table",
            )
        try:
            values = zip(names, map(_value, keys, cells), strict=True)
            yield Row(line, {name: value for name, value in values if name})
        except InputError as error:
            yield Problem(f"{path}:{line}", error.message)


def row_starts(path: Path) -> Iterator[int]:
    """Yields the line that each row starts on, without the header."""
    rows = _cells(path)
    next(rows)
    yield from (line for line, _ in rows)


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the line that each row starts on, and its cells; not the blank lines."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    header = next(filter(str.strip, _text_lines(path)), "")
    separator = max((SUFFIXES[data_suffix(path)], ",", ";", "\t"), key=header.count)
    rows = csv.reader(_text_lines(path), delimiter=separator, strict=True)
    start = 1
    try:
        for cells in rows:
            if cells:
                yield start, cells
            start = rows.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}:{start}: not a row of a table: {error}", code="data.bad_table"
        ) from None


def _text_lines(path: Path) -> Iterator[str]:
    for number, raw in read_lines(path):
        if b"\0" in raw:
            raise InputError(
                f"{path}:{number}: not text: expected a table, got a zero byte",
                code="data.zero_byte",
            )
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}:{number}: not UTF-8 text: got the byte 0x{raw[error.start]:02x}",
                hint="save the table as UTF-8: Excel calls it CSV UTF-8",
                code="data.bad_encoding",
            ) from None


def _value(key: str, cell: str) -> object:
    """Returns what a cell contains; an empty one is null in a column that is not text."""
    text = cell.strip()
    if key in _JSON_COLUMNS or (key in _TURN_COLUMNS and _TURNS.match(text)):
        try:
            return decode(text.encode("utf-8")) if text else None
        except InputError as error:
            message = f"{key!r}: expected JSON in the cell: {error.message}"
            raise InputError(message, code=error.code) from None
    is_flag = key in FLAG_KEYS or key in LABELS
    if is_flag and text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    if is_flag or key in ROW_WEIGHTS or key == MARGIN:
        try:
            return float(text)
        except ValueError:
            return text or None
    return cell
