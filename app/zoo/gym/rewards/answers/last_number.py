r"""Reads the number that a text ends with, only if it stands alone.

A number that is part of other mathematics is none: those of `\sqrt{2}`, `3x+4`, `(3, 4)` and
`x^2` are not read, and no number before them is read in their place. Units may follow a number.
"""

import re

from zoo.gym.rewards.answers.expressions import FUNCTIONS
from zoo.gym.rewards.answers.numbers import Number, matches, parse_number, value_of, without_markup

_UNIT_LETTERS = "mgshlLJNWVACF"
_UNIT_POWER = re.compile(
    rf"((?<![A-Za-z\\])(?:[{_UNIT_LETTERS}]|(?![abcxyz]+\b)[A-Za-z]{{2,}}))\s*\^\{{?-?\d\}}?"
)
_FUNCTION = rf"(?<![A-Za-z])(?:{'|'.join(sorted(FUNCTIONS))}|modulo)"
_LETTER = r"(?<![A-Za-z\\])(?![aI]\ )[A-Za-z](?![A-Za-z'])"
_OPERAND = rf"(?:\d|{_LETTER}|[)\]}}]|\\[A-Za-z]+)"
_WORDS = r"(?:plus|times|minus|over|divided\ by|multiplied\ by|to\ the\ power(?:\ of)?)"
_NEUTRAL = (
    r"approx|simeq|q?quad|to|implies|(?:long)?[rR]ightarrow|therefore|l?dots|square|blacksquare"
    r"|Box|qed|newline|item|begin|end|displaystyle|degrees?|percent"
)

_BEFORE = re.compile(
    rf"""(?:
      {_OPERAND}\ *(?:[-+/^_<>]|[<>!]=)\ *
    | {_OPERAND}(?:\*+|\ +\*\ +)
    | \d:
    | \d,
    | \d\ +
    | [)\]}}]
    | \\(?!(?:{_NEUTRAL})\b)[A-Za-z]+\ *
    | {_FUNCTION}\ *
    | {_OPERAND}\ *{_WORDS}\ +
    )\Z""",
    re.VERBOSE,
)
"""What before a number makes it a part of other mathematics."""

_AFTER = re.compile(
    rf"""\ *[\^_]
    | [.,:]\d
    | \ *(?:{_FUNCTION})(?![A-Za-z])
    | [abcxyz]+(?![A-Za-z])
    | \ ?(?![{_UNIT_LETTERS}])(?![aI]\ )[A-Za-z](?![A-Za-z'.])
    | [A-Za-z]+\d
    | \ *[-+*/]\ *(?:(?![aI]\ )[A-Za-z](?![A-Za-z'])|\\[A-Za-z]|\()
    | \((?![^()]*[A-Za-z]{{2}})
    | [)\]}}]\ *\^
    | \ *\\(?!(?:{_NEUTRAL})\b)[A-Za-z]
    | \ (?:squared|cubed|factorial|and\ (?:a|one)[\ -](?:half|third|quarter))\b
    """,
    re.VERBOSE,
)
"""What after a number makes it a part of other mathematics."""

_WORD = re.compile(r"(?<!\\)[A-Za-z]{2,}")
_AROUND = 200
"""Characters on each side of a number that are searched for what it is part of."""


def only_number(text: str) -> Number | None:
    r"""Returns the number that an answer states: its only one, or that after its equals sign.

    Example:
        >>> [found and str(found.value) for found in map(only_number, ("x = 5 cm^2", "(3, 4)"))]
        ['5', None]
    """
    number = parse_number(text)
    if number is not None:
        return number
    plain = _without_unit_powers(text)
    right = re.split(r"=|\\approx|≈", plain)[-1]
    clauses = [
        clause for clause in re.split(r"[,;]\s|\b(?:or|and)\b", plain) if any(matches(clause))
    ]
    if len(clauses) > 1 or len(list(matches(right))) != 1 or re.search(r"\d!", right):
        return None
    return _standing_alone(right)


def last_number(text: str) -> Number | None:
    """Returns the number that a text ends with; None if it is part of other mathematics.

    Example:
        >>> [found and str(found.value) for found in map(last_number, ("2+3 = 5 kg", "so 3x+4"))]
        ['5', None]
    """
    return parse_number(text) or _standing_alone(_without_unit_powers(text))


def _without_unit_powers(text: str) -> str:
    return _UNIT_POWER.sub(r"\1", without_markup(text))


def _standing_alone(text: str) -> Number | None:
    match = None
    for match in matches(text):  # noqa: B007 - the last one
        pass
    if match is None:
        return None
    start = match.end() - len(match[0].lstrip())
    line_start = text.rfind("\n", 0, start) + 1
    left = text[max(line_start, start - _AROUND) : start]
    right = text[match.end() : match.end() + _AROUND].partition("\n")[0]
    is_part = _is_part(left, right) or _is_subtracted(match, left)
    return None if is_part else value_of(match)


def _is_subtracted(match: "re.Match[str]", context: str) -> bool:
    """Returns whether a sign may be an operator, a bullet, or a dash between words."""
    if not match["sign"]:
        return False
    spaced = match[0].lstrip()[1:2] == " "
    left = context.rstrip(" ")
    return bool(re.search(rf"{_OPERAND}\Z", left)) or (
        spaced and bool(re.search(r"\w\Z|\A\Z", left))
    )


def _is_part(left: str, right: str) -> bool:
    """Returns whether a number between two texts is part of other mathematics."""
    left, right = left.rstrip("$"), right.lstrip("$")
    while left[-1:] in {"(", "["} and right[:1] in {")", "]"}:
        left, right = left[:-1], right[1:]
        if re.search(rf"(?:\d|{_LETTER}|[)\]}}])\Z", left):
            return True
    opened = _opened(left)
    if opened is not None:
        inside = left[opened + 1 :] + re.split(r"[)\]}]", right, maxsplit=1)[0]
        is_tex = left[opened] == "{" and re.search(r"[\w\\^_}]\Z", left[:opened])
        if is_tex or ("," in inside and not _WORD.search(inside)):
            return True
    return bool(_BEFORE.search(left) or _AFTER.match(right))


def _opened(left: str) -> int | None:
    """Returns the place of the innermost bracket that a text opens and does not close."""
    depth = 0
    for index in range(len(left) - 1, -1, -1):
        if left[index] in ")]}":
            depth += 1
        elif left[index] in "([{":
            if not depth:
                return index
            depth -= 1
    return None
