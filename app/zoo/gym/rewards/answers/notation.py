r"""Writes the mathematics of Unicode as ASCII and LaTeX: `10³`, `1½`, `√13`, `25 000`.

Numbers, formulas and texts are compared in this one form. NFKC alone loses powers and mixed
numbers: it makes `10³` 103 and `1½` 11/2. Left out: words for numbers, except a sign in words.
"""

import re
import unicodedata

_SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ"
_SUB = "₀₁₂₃₄₅₆₇₈₉₊₋"
_ASCII = str.maketrans(_SUPER + _SUB, "0123456789+-()ni0123456789+-")
_POWERS = re.compile(rf"[{_SUPER}]+")
_INDICES = re.compile(rf"[{_SUB}]+")
_DIGIT_INDICES = re.compile(rf"(?<=[\d)\]}}])[{_SUB}]+")
_VULGAR = re.compile(r"(\d?)([¼½¾⅐-⅞↉])")
_SIGNS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),  # dashes that are a minus
    **dict.fromkeys("\u2014\u2015", " "),  # dashes between words
    **dict.fromkeys("\u00d7\u2a2f\u2715", "\\times "),
    **dict.fromkeys("\u00b7\u22c5\u2219", "\\cdot "),
    "÷": "/",
    "\u2044": "/",
    "\u2215": "/",
    "\u2236": ":",
    "π": "\\pi ",
    "∞": "\\infty ",
    "±": "\\pm ",
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "\u222a": "\\cup ",
    "°": "^\\circ ",
}
_SIGN_TABLE = str.maketrans(_SIGNS)
_SPACE = r"(?: |~|\\[,;:! ]|\\thinspace |\{,\}|\{\\,\})"
_GROUPED = re.compile(rf"(?<![\w.,/^])\d{{1,3}}(?:{_SPACE}\d{{3}})+(?![\d/]| ?/)")
_MINUS = re.compile(
    r"(?:(?<![\w-])(?:minus|negative)\s+|\\text\w*\{\s*(?:minus|negative)\s*\}\s*)"
    r"((?:\$|\\\(|\\boxed\{)*)"
    r"(?=[$€£¥]?\.?\d|\\(?:frac|sqrt|pi)|[√(]|[a-z]\b)",
    re.IGNORECASE,
)
_ROOT = re.compile(r"(?:√|\\sqrt(?![A-Za-z])|(?<![\\A-Za-z])sqrt(?![A-Za-z]))\s*")
_RADICAND = re.compile(r"\d+(?:\.\d+)?|[A-Za-z](?![A-Za-z])|\\pi(?![A-Za-z])")


def characters(text: str) -> str:
    """Returns a text with each character in its common form (NFKC), powers and fractions kept.

    Example:
        >>> characters("10³ cm"), characters("1½"), characters("H₂O"), characters("10₂")
        ('10^3 cm', '1 1/2', 'H2O', '10_2')
    """
    text = _POWERS.sub(lambda match: _script("^", match[0]), text)
    text = _DIGIT_INDICES.sub(lambda match: _script("_", match[0]), text)
    text = _VULGAR.sub(lambda match: f"{match[1]} {match[2]}" if match[1] else match[2], text)
    return unicodedata.normalize("NFKC", text).replace("\u2044", "/")


def plain(text: str) -> str:
    r"""Returns the mathematics of a text as ASCII and LaTeX, digits without spaces between groups.

    Example:
        >>> plain("25 000"), plain("\u20135"), plain("minus 5"), plain("√13"), plain("sqrt(x+1)")
        ('25000', '-5', '-5', '\\sqrt{13}', '\\sqrt{x+1}')
    """
    text = _INDICES.sub(lambda match: _script("_", match[0]), text.replace("∛", "\\sqrt[3]"))
    text = characters(text).translate(_SIGN_TABLE)
    text = _MINUS.sub(r"\1-", text)
    return _roots(_GROUPED.sub(lambda match: re.sub(_SPACE, "", match[0]), text))


def _script(mark: str, signs: str) -> str:
    """Returns a power or an index; in braces if it is more than a digit."""
    ascii_ = signs.translate(_ASCII)
    return f"{mark}{ascii_}" if len(ascii_) == 1 else f"{mark}{{{ascii_}}}"


def _roots(text: str) -> str:
    r"""Returns a text with the radicand of each root in braces, nested ones too."""
    roots = list(_ROOT.finditer(text))
    if not roots:
        return text
    closing = _closing(text)
    pieces: dict[int, tuple[int, str]] = {}  # from where to where, and what replaces it
    for root in roots:
        radicand = _RADICAND.match(text, root.end())
        if (close := closing.get(root.end())) is not None:
            pieces[root.start()] = (root.end() + 1, "\\sqrt{")
            pieces[close] = (close + 1, "}")
        elif radicand:
            pieces[root.start()] = (radicand.end(), f"\\sqrt{{{radicand[0]}}}")
        else:
            pieces[root.start()] = (root.end(), "\\sqrt")
    parts, last = [], 0
    for start, (stop, piece) in sorted(pieces.items()):
        if start >= last:
            parts += [text[last:start], piece]
            last = stop
    return "".join([*parts, text[last:]])


def _closing(text: str) -> dict[int, int]:
    """Returns the place of the closing bracket for that of each opening one."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for bracket in re.finditer(r"[()]", text):
        if bracket[0] == "(":
            opened.append(bracket.start())
        elif opened:
            closing[opened.pop()] = bracket.start()
    return closing
