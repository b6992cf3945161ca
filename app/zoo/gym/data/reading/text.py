"""Reads plain text files as paragraphs; joined by blank lines they give the file again.

Files that begin like rows or a document of another format are refused: they would be learned letter
for letter. Only the beginning of a whole file counts: prose that contains such characters is read.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from zoo.gym.data.reading.files import read_text
from zoo.gym.data.records import Record
from zoo.gym.errors import InputError

BLANK_LINE = "\n\n"
"""The separator between two texts of a stream."""

_BETWEEN = re.compile(r"\n\n(?!\n)")
_COMMENTS = re.compile(r"(?:\s*(?://[^\n]*\n|#[^\n]*\n|/\*.*?\*/))+\s*", re.DOTALL)
_QUOTES = "\"'\u201c\u201d\u201e\u2018\u2019"
_ROWS = re.compile(rf"\[?\s*\{{\s*(?P<quote>[{_QUOTES}])[^\n]{{1,200}}?[{_QUOTES}]\s*:")
_MARKUP = re.compile(r"<(\?xml|!doctype\s|html[\s>])", re.IGNORECASE)
_MARKUP_SUFFIXES = frozenset({".htm", ".html", ".xhtml", ".xml"})


def read_paragraphs(path: Path) -> Iterator[Record]:
    """Yields the paragraphs of a text file as text records.

    Newlines around the whole file are removed. If more than one blank line separates two
    paragraphs, the first one keeps the extra ones, so nothing is lost. The file is one
    document, which ends with the last paragraph.

    Raises:
        InputError: the file is not UTF-8, or begins like JSON that does not parse, a Python dict,
            RTF or markup.
    """
    text = read_text(path)
    _refuse_lookalikes(path, text)
    body = text.strip("\n")
    line = 1 + len(text) - len(text.lstrip("\n"))
    *paragraphs, last = _BETWEEN.split(body)
    for paragraph in paragraphs:
        yield Record(f"{path}:{line}", "text", text=paragraph)
        line += paragraph.count("\n") + len(BLANK_LINE)
    yield Record(f"{path}:{line}", "text", text=last, ends=True)


def _refuse_lookalikes(path: Path, text: str) -> None:
    body = start = text.lstrip()
    comments = _COMMENTS.match(body)
    suffixed = path.suffix.lower() in _MARKUP_SUFFIXES and body.startswith("<")
    if body.startswith("{\\rtf"):
        got, hint = "RTF", "save it as plain text"
    elif suffixed or _MARKUP.match(body):
        got, hint = "HTML or XML", "save its text as plain text"
    else:
        start = body[comments.end() :] if comments else body
        row = _ROWS.match(start)
        if row is None or _is_front_matter(start):
            return
        if row["quote"] == "'":
            got, hint = "a Python dict", "write the rows with json.dumps"
        elif row["quote"] != '"':
            got, hint = "JSON with curly quotes", 'replace them with "'
        elif comments:
            got, hint = "comments above JSON", "remove the comments: JSON has none"
        else:
            got, hint = "JSON that does not parse", "name the file .jsonl to see each line's error"
    line = 1 + text.count("\n", 0, len(text) - len(start))
    raise InputError(
        f"{path}:{line}: expected rows of JSON or plain text, got {got}",
        hint=hint,
        code="data.other_format",
    )


def _is_front_matter(text: str) -> bool:
    """Returns whether a text begins with JSON that parses and has something else below it."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip()[:1] not in ("", "{", "[", ",")
