"""Fields that the terms and the records of a round are made of."""

import re
import unicodedata
from datetime import datetime
from typing import Annotated, cast

from pydantic import Field

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A digest of 32 bytes."""

MOST_TEXT = 2000
"""Characters of a sentence in an entry."""

MOST_NAME = 200
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*")

FIRST_YEAR_BEYOND = "9990"
"""Deadlines can be extended, and Python's years end with 9999."""


def as_function(name: str) -> str:
    """Returns `module:function` as it is; whether there is one only its machine can say.

    Raises:
        ValueError: the name has another form, or that of a file.
    """
    file = name.partition(":")[0].endswith(".py")
    if file or len(name) > MOST_NAME or not _FUNCTION.fullmatch(name):
        raise ValueError(f"expected module:function, got {name!r:.60}")
    return name


def as_time(text: str) -> str:
    """Returns a time in UTC as it is.

    Raises:
        ValueError: there is no such day or hour, or no time a year after it.
    """
    try:
        there = datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%SZ") == text
    except ValueError:
        there = False
    if not there:
        raise ValueError(f"expected a time as 2026-12-31T23:59:59Z, got {text!r:.60}")
    if text >= FIRST_YEAR_BEYOND:
        raise ValueError(f"expected a time before the year {FIRST_YEAR_BEYOND}, got {text!r}")
    return text


def as_tuple(value: object) -> object:
    """Returns a list of JSON as a tuple, anything else as it is."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def is_text(value: object) -> bool:
    """Says whether a value is a sentence: one line of printable characters."""
    return isinstance(value, str) and 0 < len(value) <= MOST_TEXT and _is_line(value)


def as_text(said: str, most: int = MOST_TEXT) -> str:
    r"""Returns what may be anybody's words as a sentence that an entry may have.

    Characters that are not printable in Unicode 3.2, and so not in every version of Python, become
    escapes, and what is too long is cut: the same words on every machine.

    Args:
        said: the words.
        most: characters that are left.

    Example:
        >>> as_text("too bad\nphase: published")
        'too bad\\x0aphase: published'
    """
    line = "".join(one if _is_plain(one) else _escaped(one) for one in said) or "no reason given"
    return line if len(line) <= most else f"{line[: most - 3]}..."


def quoted(said: str) -> str:
    """Returns what may be anybody's words in quotes, the same with every version of Python."""
    return ascii(said)


def as_line(value: str) -> str:
    """Returns a name that every machine reads and shows alike.

    Raises:
        ValueError: a character is not printable, or not of Unicode 3.2.
    """
    if not _is_line(value):
        raise ValueError(f"expected printable characters of Unicode 3.2, got {value!a:.60}")
    return value


def _is_line(text: str) -> bool:
    return all(_is_plain(one) for one in text)


def _is_plain(one: str) -> bool:
    # the soft hyphen was a dash in 3.2, and is invisible since
    return one == " " or (one != "\xad" and unicodedata.ucd_3_2_0.category(one)[0] not in "CZ")


def _escaped(one: str) -> str:
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_known_everywhere(text: str) -> bool:
    """Returns whether a text has characters of Unicode 3.2 alone.

    What a later character is (a letter, printable, the lower case of which) differs among versions
    of Python, and so would what they decide about the text.
    """
    return all(unicodedata.ucd_3_2_0.category(one) != "Cn" for one in text)
