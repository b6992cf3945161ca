"""Makes untrusted text safe for a terminal: control characters are shown as escapes.

Data, models, file names and logs may contain escape sequences that move the cursor, rename the
window or send input in the user's name, and marks that reverse the direction of text. Each such
character is written as its escape; line ends and tabs stay.
"""

import json
import math
import os
import re
import sys
from collections.abc import Mapping
from typing import cast

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and line end, DEL, C1
    "\u2028\u2029"  # line ends that only some programs recognise
    "\u202a-\u202e\u2066-\u2069"  # bidirectional embeddings, overrides and isolates
    "\ud800-\udfff]"  # unpaired surrogates, which cannot be encoded
)


def visible(text: str) -> str:
    r"""Returns text that is safe to print, with `\x1b` for an escape character.

    Example:
        >>> visible("red \x1b[31m\r\nend")
        'red \\x1b[31m\nend'
    """
    return _STEERING.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    r"""Returns text for a single line: `visible`, and line ends and tabs are escaped as well.

    Example:
        >>> one_line("tuned\tby me\nchecked")
        'tuned\\x09by me\\x0achecked'
    """
    return visible(re.sub("[\t\n\r]", _escape, text))


def json_line(value: object) -> str:
    r"""Returns JSON on one line, which parses to the same value; NaN and infinities become null.

    Example:
        >>> json_line({"a": "\u202e\x9b"})
        '{"a": "\\u202e\\u009b"}'
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", plain_json(value))


def plain_json(value: object) -> str:
    """Returns JSON on one line; numbers that JSON lacks (NaN, infinities) become null."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, ensure_ascii=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {key: _finite(entry) for key, entry in entries.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in cast("list[object]", value)]
    return value


def _escape(match: "re.Match[str]") -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def rewrites_lines() -> bool:
    """Returns whether stderr is a terminal that supports carriage return."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
