"""Reads JSON rows with their line numbers: one row per line, or one list of rows.

Lines are streamed; a bad line is reported and the rest is read. A list is decoded element by
element; after an error the end of that element is unknown, so the file is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from zoo.gym.data.reading.files import BOM, read_bytes, read_head, read_lines, read_text
from zoo.gym.data.records import Problem
from zoo.gym.errors import InputError

_SPACE = " \t\r\n"
_START_BYTES = 8192
_LIST_START = re.compile(rb'\s*\[\s*\{\s*"(?:[^"\\]|\\.)*"\s*:')


class RepeatedKeyError(InputError):
    """A row has a duplicate key, so its value is ambiguous."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise RepeatedKeyError(
            f"duplicate key {twice[:60]!r}: expected it once", code="data.duplicate_key"
        )
    return fields


_DECODER = json.JSONDecoder()
_STRICT = json.JSONDecoder(object_pairs_hook=_unique)


class Row(NamedTuple):
    """One decoded JSON value.

    Attributes:
        line: the line that the value starts on, counted from 1.
        value: the value as `json` decodes it.
    """

    line: int
    value: object


def holds_rows(path: Path) -> bool:
    """Returns whether a file contains JSON rows, judging by its beginning and not its name.

    It does if its first line is an object, if the whole file is one, or if it begins like a list
    of objects. Text that merely begins with a bracket does not count.
    """
    head = _start(path)
    if head.startswith(b"["):
        return _LIST_START.match(head) is not None
    return head.startswith(b"{") and (
        _is_json(_first_line(path), dict) or _is_json(read_bytes(path), dict)
    )


def _start(path: Path) -> bytes:
    return read_head(path, _START_BYTES).removeprefix(BOM).lstrip()


def _first_line(path: Path) -> bytes:
    return next(filter(None, (raw.strip() for _, raw in read_lines(path))), b"")


def _is_json(raw: bytes, kind: type = object) -> bool:
    """Returns whether bytes are one complete JSON value of a type."""
    try:
        return isinstance(json.loads(raw), kind)
    except (ValueError, RecursionError):
        return False


def has_row_per_line(path: Path) -> bool:
    """Returns whether a JSON file has a row per line, rather than one list or one object."""
    return not _start(path).startswith(b"[") and _is_json(_first_line(path))


def read_rows(path: Path, skip: int = 0) -> Iterator[Row | Problem]:
    """Yields the rows of a JSON file in order, and a problem for each bad line.

    Args:
        path: a file with one value per line, one list, or one object over several lines.
        skip: how many rows to leave out at the start; of lines, without decoding them.

    Raises:
        InputError: the file is a malformed list.
    """
    if _start(path).startswith(b"["):
        return islice(_list_rows(path), skip, None)
    if _is_json(_first_line(path)):
        return _line_rows(path, skip)
    return islice(_object_rows(path), skip, None)


def _line_rows(path: Path, skip: int = 0) -> Iterator[Row | Problem]:
    for number, raw in read_lines(path):
        if line := raw.strip():
            if skip:
                skip -= 1
                continue
            try:
                yield Row(number, decode(line))
            except InputError as error:
                yield Problem(f"{path}:{number}", error.message)


def decode(raw: bytes) -> object:
    """Returns the one JSON value of a line.

    Raises:
        InputError: it is not UTF-8, not JSON, truncated, nested too deeply, not Unicode text, or
            has a duplicate key in an object.
    """
    try:
        text = raw.decode("utf-8")
        value: object = _STRICT.decode(text)
        _refuse_lone_surrogates(value, text)
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 text: got byte 0x{raw[error.start]:02x} at column {error.start + 1}",
            code="data.bad_encoding",
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(_reason(error), code="data.bad_json") from None
    return value


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply to be read"
    if not isinstance(error, json.JSONDecodeError):  # a number with too many digits for Python
        return f"not valid JSON: {error}"
    what = error.msg[0].lower() + error.msg[1:].removesuffix(" starting at")
    at_end = error.pos >= len(error.doc.rstrip(_SPACE))
    cut = at_end or what.startswith("unterminated string")
    return f"{'truncated JSON' if cut else 'not valid JSON'}: {what} at column {error.colno}"


def _refuse_lone_surrogates(value: object, source: str) -> None:
    if "\\ud" not in source.lower():
        return
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        lone = ord(error.object[error.start])
        raise InputError(
            f"not Unicode text: got an unpaired surrogate, \\u{lone:04x}", code="data.bad_encoding"
        ) from None


def _object_rows(path: Path) -> Iterator[Row | Problem]:
    """Reads one object that is spread over lines, or otherwise one row per line."""
    try:
        yield Row(1, decode(read_bytes(path)))
    except RepeatedKeyError as error:
        yield Problem(f"{path}:1", error.message)
    except InputError:
        yield from _line_rows(path)


def _list_rows(path: Path) -> Iterator[Row | Problem]:
    text = read_text(path)
    at = _skip_space(text, text.index("[") + 1)
    line, start = 1, 0
    while text[at : at + 1] != "]":
        line, start = line + text.count("\n", start, at), at
        try:
            value, end = _DECODER.raw_decode(text, at)
            at = _after_value(text, end)
        except (ValueError, RecursionError) as error:
            number = error.lineno if isinstance(error, json.JSONDecodeError) else line
            raise InputError(f"{path}:{number}: {_reason(error)}", code="data.bad_json") from None
        try:  # the first decoding only found the end; these checks also need more stack
            _STRICT.raw_decode(text, start)
            _refuse_lone_surrogates(value, text[start:end])
            yield Row(line, value)
        except (InputError, RecursionError) as error:
            reason = error.message if isinstance(error, InputError) else _reason(error)
            yield Problem(f"{path}:{line}", reason)
    if text[at + 1 :].strip(_SPACE):
        line += text.count("\n", start, at)
        raise InputError(
            f"{path}:{line}: not valid JSON: expected one list, got more after it",
            code="data.bad_json",
        )


def _after_value(text: str, end: int) -> int:
    """Returns where the next value, or the closing bracket, starts."""
    at = _skip_space(text, end)
    if text[at : at + 1] == "]":
        return at
    if text[at : at + 1] != ",":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    at = _skip_space(text, at + 1)
    if text[at : at + 1] == "]":
        raise json.JSONDecodeError("Expecting value", text, at)
    return at


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
