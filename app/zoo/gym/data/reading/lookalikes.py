"""Refuses files that begin like rows or a document and would be learned letter for letter.

Only how a whole file begins counts: prose that contains such characters is learned.
"""

import json
import re
from pathlib import Path

from zoo.gym.errors import InputError

_COMMENTS = re.compile(r"(?:\s*(?://[^\n]*\n|#[^\n]*\n|/\*.*?\*/))+\s*", re.DOTALL)
_QUOTES = "\"'\u201c\u201d\u201e\u2018\u2019"
_ROWS = re.compile(rf"\[?\s*\{{\s*(?P<quote>[{_QUOTES}])[^\n]{{1,200}}?[{_QUOTES}]\s*:")
_RTF = "{\\rtf"
_MARKUP = re.compile(r"<(\?xml|!doctype\s|html[\s>])", re.IGNORECASE)
_MARKUP_SUFFIXES = frozenset({".htm", ".html", ".xhtml", ".xml"})


def refuse_lookalikes(path: Path, text: str) -> None:
    """Refuses text that begins like JSON that does not parse, a Python dict, RTF or markup.

    Args:
        path: the file, for messages.
        text: all of it; it has no rows of JSON.

    Raises:
        InputError: it begins so; the message has the line.
    """
    body = text.lstrip()
    comments = _COMMENTS.match(body)
    below = body[comments.end() :] if comments else body
    suffixed = path.suffix.lower() in _MARKUP_SUFFIXES and body.startswith("<")
    if body.startswith(_RTF):
        raise _refused(path, text, body, "RTF", "save it as plain text")
    if suffixed or _MARKUP.match(body):
        raise _refused(path, text, body, "HTML or XML", "save its text as plain text")
    row = _ROWS.match(below)
    if row is None or _is_front_matter(below):
        return
    if row["quote"] == "'":
        got, hint = "a Python dict", "write the rows with json.dumps"
    elif row["quote"] != '"':
        got, hint = "JSON with curly quotes", 'write " in place of them'
    elif comments:
        got, hint = "comments above JSON", "remove the comments: JSON has none"
    else:
        got, hint = "JSON that does not parse", "name the file .jsonl to see each line's error"
    raise _refused(path, text, below, got, hint)


def _is_front_matter(text: str) -> bool:
    """Returns whether a text begins with JSON that parses and has something else below it."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip()[:1] not in ("", "{", "[", ",")


def _refused(path: Path, text: str, body: str, got: str, hint: str) -> InputError:
    line = 1 + text.count("\n", 0, len(text) - len(body))
    return InputError(f"{path}:{line}: expected rows of JSON or plain text, got {got}", hint=hint)
