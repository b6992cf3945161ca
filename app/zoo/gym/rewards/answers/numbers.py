r"""Reads numbers from text: `-1,234.5`, `2/3`, `1 1/2`, `\frac{2}{3}`, `6e-3`, `50%`, `$20`.

Numbers are exact fractions, so that comparing them has no rounding error of its own.
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

_DIGITS = r"(?:\d{1,3}(?:[,_]\d{3})+(?!\d)|\d+)"
_PLAIN = rf"(?:{_DIGITS}(?:\.\d+)?|\.\d+)"
_NUMBER = re.compile(
    rf"""
    (?<![\w.])                                # not inside a word or a number
    (?P<sign>(?<![\d)])[-+])?\ ?[$€£¥]?\ ?    # a minus after a digit is a subtraction
    (?:
      (?:(?P<whole>\d+)\ (?:and\ )?)?(?P<top>{_PLAIN})\ ?/\ ?(?P<bottom>{_PLAIN})(?![\d/])
      | (?P<number>{_PLAIN})(?:[eE](?P<power>[-+]?\d+))?
    )
    (?P<percent>\ ?%)?
    """,
    re.VERBOSE,
)
_FRAC = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|(\d)\s*(\d))")
_TEX = (("\\%", "%"), ("\\$", "$"), ("{,}", ","), ("\\,", ""), ("\\!", ""), ("\\ ", " "))

MOST_DIGITS = 400
"""A longer number, or a larger power of ten, is not read: no double is as large."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written.

    Attributes:
        value: its value; `50%` is 1/2.
        percent: whether it is written with a percent sign.
        text: how it is written.
    """

    value: Fraction
    percent: bool = False
    text: str = ""

    def values(self) -> frozenset[Fraction]:
        """Returns its value; with a percent sign also the number before it."""
        return frozenset({self.value, self.value * 100} if self.percent else {self.value})


def find_numbers(text: str) -> list[Number]:
    """Returns the numbers of a text in order.

    Example:
        >>> [str(found.value) for found in find_numbers("3-1 is 2, or 1 1/2 of 4,000?")]
        ['3', '1', '2', '3/2', '4000']
    """
    found = (_read(match) for match in _NUMBER.finditer(_plain(text)))
    return [number for number in found if number is not None]


def parse_number(text: str) -> Number | None:
    """Returns the number that a text consists of, None if there is anything else in it."""
    match = _NUMBER.fullmatch(_plain(text).lstrip(" \t\n*`").rstrip(" \t\n.*`"))
    return _read(match) if match else None


def _plain(text: str) -> str:
    """Returns a text in which fractions of LaTeX and Unicode, and minus signs, are ASCII."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2044", "/").replace("\u2212", "-")
    for tex, character in _TEX:
        plain = plain.replace(tex, character)
    return _FRAC.sub(lambda found: f" {found[1] or found[3]}/{found[2] or found[4]}", plain)


def _read(match: "re.Match[str]") -> Number | None:
    if len(match[0]) > MOST_DIGITS or len(match["power"] or "") > 4:
        return None
    if match["number"] is None:
        bottom = _fraction(match["bottom"])
        if not bottom:
            return None
        value = _fraction(match["whole"] or "0") + _fraction(match["top"]) / bottom
    else:
        power = int(match["power"] or 0)
        if abs(power) > MOST_DIGITS:
            return None
        value = _fraction(match["number"]) * Fraction(10) ** power
    value = -value if match["sign"] == "-" else value
    percent = match["percent"] is not None
    return Number(value / 100 if percent else value, percent, match[0].strip())


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").replace("_", ""))
