r"""Reads numbers from text: `-1,234.5`, `2/3`, `1 1/2`, `\frac{2}{3}`, `10^6`, `50%`, `$20`.

Numbers are exact fractions, so that comparing them has no rounding error of its own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from zoo.gym.rewards.answers.notation import plain

_DIGITS = r"(?:\d{1,3}(?:[,_]\d{3})+(?!\d)|\d+)"
_PLAIN = rf"(?:{_DIGITS}(?:\.\d+)?|\.\d+)"
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}


def _power(name: str) -> str:
    """Returns the pattern of a whole exponent, plain or in brackets, with one group for it."""
    return rf"\ ?\^\ ?[{{(]?\ ?(?P<{name}>[-+]?\d+(?![\w.]))\ ?[}})]?"


_NUMBER = re.compile(
    rf"""
    (?<![\w.^])                               # not inside a word or a number, no exponent
    (?P<sign>(?<![\d)])[-+])?\ ?[$€£¥]?\ ?    # a minus after a digit is a subtraction
    (?:
      (?:(?P<whole>\d+)\ (?:and\ )?)?(?P<top>{_PLAIN})\ ?/\ ?(?P<bottom>{_PLAIN})(?![\d/])
      | (?P<number>{_PLAIN})(?:[eE](?P<power>[-+]?\d+))?(?:{_power("exponent")})?
        (?:\s*(?:\\times|\\cdot|[x*])\s*10{_power("ten")})?
        (?P<scale>(?:\ (?:{"|".join(_SCALES)})s?\b)+)?
    )
    (?P<percent>\ ?%|\ per\ ?cent\b)?
    """,
    re.VERBOSE,
)
_FRAC = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|(\d)\s*(\d))")
_NUMERAL = re.compile(rf"\s*{_PLAIN}\s*")
_STYLE = re.compile(r"\\(?:text\w*|math[a-z]+|mbox|boxed|underline)\s*\{([^{}]*)\}")
_MARKUP = re.compile(
    r"</?[A-Za-z]\w*(?:\s[^<>\n]*)?>"
    r"|\^\s*+\{?\s*+\\circ\s*+\}?|\\[()\[\]]|\\\\|\\(?:left|right)\b"
)
_TEX = (("\\%", "%"), ("\\$", "$"), ("{,}", ","), ("\\,", " "), ("\\!", ""), ("\\ ", " "))

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
    values = (value_of(match) for match in matches(without_markup(text)))
    return [number for number in values if number is not None]


def parse_number(text: str) -> Number | None:
    """Returns the number that a text consists of, None if there is anything else in it."""
    match = _NUMBER.fullmatch(without_markup(text).lstrip(" \t\n*`").rstrip(" \t\n.*`$"))
    return value_of(match) if match else None


def matches(text: str) -> "Iterator[re.Match[str]]":
    """Returns what is written as a number in a text without markup, in order."""
    return _NUMBER.finditer(text)


def without_markup(text: str) -> str:
    r"""Returns a text in which mathematics is ASCII, fractions are `a/b`, and no style is left.

    Example:
        >>> without_markup(r"12\text{ m}^2"), without_markup(r"1\frac{1}{2}")
        ('12  m^2', '1 1/2')
    """
    text = _MARKUP.sub(" ", plain(text))
    for tex, character in _TEX:
        text = text.replace(tex, character)
    text = _STYLE.sub(r" \1", _STYLE.sub(r" \1", text))
    return _FRAC.sub(_slashed, text)


def _slashed(match: "re.Match[str]") -> str:
    """Returns a fraction of LaTeX as `a/b`; in brackets if it is not one of two numerals."""
    top, bottom = match[1] or match[3] or "", match[2] or match[4] or ""
    signed = top.strip().removeprefix("-")
    if not (_NUMERAL.fullmatch(signed) and _NUMERAL.fullmatch(bottom)):
        return match[0]
    return f" {'-' if '-' in top else ''}{signed.strip()}/{bottom.strip()}"


def value_of(match: "re.Match[str]") -> Number | None:
    """Returns the number that a match is; None if it is too long or large, or divides by zero."""
    if len(match[0]) > MOST_DIGITS:
        return None
    value = _quotient(match) if match["number"] is None else _scaled(match)
    if value is None:
        return None
    value = -value if match["sign"] == "-" else value
    percent = match["percent"] is not None
    return Number(value / 100 if percent else value, percent, match[0].strip())


def _quotient(match: "re.Match[str]") -> Fraction | None:
    top, bottom = _fraction(match["top"]), _fraction(match["bottom"])
    if not bottom or (match["whole"] and not 0 < top < bottom):
        return None
    return _fraction(match["whole"] or "0") + top / bottom


def _scaled(match: "re.Match[str]") -> Fraction | None:
    """Returns a number with its exponent, power of ten and scale, such as `million`."""
    if any(len(match[name] or "") > 5 for name in ("power", "exponent", "ten")):
        return None
    value, exponent = _fraction(match["number"]), int(match["exponent"] or 1)
    tens = int(match["power"] or 0) + int(match["ten"] or 0)
    tens += sum(_SCALES[word.removesuffix("s")] for word in (match["scale"] or "").split())
    digits = len(match["number"]) * abs(exponent)
    if abs(tens) > MOST_DIGITS or digits > 4 * MOST_DIGITS or (not value and exponent < 0):
        return None
    return value**exponent * Fraction(10) ** tens


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").replace("_", ""))
