r"""Finds the mathematics of a text that marks none with `$...$`, `\(...\)` or `\boxed{}`.

math-verify parses LaTeX between such marks, and in plain text only numbers: the last one, even if
it is part of a pair. Left out: the meaning of words, so that `two thirds` is no number.
"""

import re

_NAMED = r"\\(?:begin|end|text\w*|mathrm|mathbf|mbox|operatorname\*?)\s*\{[^{}]*\}"
_LETTERS = re.compile(rf"{_NAMED}|\\[A-Za-z]+|[A-Za-z]+(?:['\u2019-][A-Za-z]+)*")
_DELIMITED = re.compile(r"\$[^$]+\$|\\\(|\\\[|\\boxed\b")
_LEADING = re.compile(r"\$+([^$]+)\$+|\\\((.+?)\\\)|\\\[(.+?)\\\]")
_WORD_PARTS = re.compile("['\u2019-]")
_CANDIDATE = re.compile(r"\d|\\[A-Za-z]|\w\s*[-+*/^=]\s*\w")
_BREAK = re.compile(r"\n|[;?!]|[.:](?=\s|$)")
_CHOICE = re.compile(r"\b(?:or|and)\b")
_APPROXIMATELY = re.compile(r"\\approx\b|≈|\\simeq\b")
_TEXT = re.compile(r"\\(?:text\w*|mathrm|mbox)\s*\{([^{}]*)\}")
_BEFORE_TERM = re.compile(r"\s+[\w\\]")
_AROUND = " \t\n.,:;!?*_`\"'="

_FUNCTIONS = (
    "sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan log ln exp lim max min "
    "gcd lcm sqrt pi mod det"
)
_SHORT_WORDS = (
    "am an as at be by cm do dm ft go he hr hz if in is it kg km lb me mg ml mm my no of "
    "oh ok on or oz so to up us we"
)

FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Words that are mathematics."""

SHORT_WORDS = frozenset(_SHORT_WORDS.split())
"""Words and units of two letters, which are no products."""


_ROOT = re.compile(r"(?<![\\A-Za-z])sqrt\(([^()]*)\)")
_FUNCTION = re.compile(rf"(?<![\\A-Za-z])({'|'.join(sorted(FUNCTIONS, reverse=True))})(?![A-Za-z])")
_SIGNS = {
    "**": "^",
    "\u2212": "-",
    "\u00d7": "\\times ",
    "\u00b7": "\\cdot ",
    "\u03c0": "\\pi ",
    "\u00b2": "^2",
    "\u00b3": "^3",
}


def is_delimited(text: str) -> bool:
    """Returns whether a text marks mathematics."""
    return _DELIMITED.search(text) is not None


def is_expression(text: str) -> bool:
    r"""Returns whether a text is mathematics alone, without words.

    Example:
        >>> [is_expression(text) for text in ("x+1", r"\sqrt{2}", "(2, 1)", "it is 5")]
        [True, True, True, False]
    """
    return bool(_trimmed(text)) and _BREAK.search(_trimmed(text)) is None and not _words(text)


def readings(text: str) -> tuple[str, ...]:
    r"""Returns what a text without delimiters gives as its value, as LaTeX; empty for none.

    It is the whole text if it is an expression, else its last expression. An equation is also read
    as its right side, and an approximation as each side.

    Example:
        >>> readings("so the pair is (2, 1)."), readings("48 + 24 = 72")
        (('(2, 1)',), ('48 + 24 = 72', '72'))
    """
    if is_expression(text):
        return _sides(_trimmed(text))
    found = [piece for piece in _pieces(text) if _CANDIDATE.search(piece)]
    return _sides(found[-1]) if found else ()


def stated(text: str) -> tuple[str, ...]:
    r"""Returns the readings of what follows `the answer is`: the expression that it begins with.

    A choice, such as `5 or 6`, states nothing: it is read as other text.

    Example:
        >>> stated(r"\sqrt{2}, which is about 1.41"), stated("5 or 6")
        (('\\sqrt{2}',), ('6',))
    """
    sentence = re.split(r"\n|\.\s", text, maxsplit=1)[0]
    if _CHOICE.search(sentence):
        return () if is_delimited(text) else readings(text)
    leading = _LEADING.match(text.strip(" *_"))
    if leading and not _words(inside := leading[1] or leading[2] or leading[3]):
        return (inside,)
    if is_delimited(text):
        return ()
    if is_expression(text):
        return readings(text)
    words = _words(text)
    first = _trimmed(_BREAK.split(text[: words[0].start()])[0]) if words else ""
    return _sides(first) if first else readings(text)


def only_expression(text: str) -> str | None:
    """Returns the expression of a text that contains one alone, in any words; None otherwise."""
    if is_expression(text):
        return _latex(_trimmed(text))
    found = [piece for piece in _pieces(text) if _CANDIDATE.search(piece)]
    return _latex(found[0]) if len(found) == 1 else None


def same_text(one: str, other: str) -> bool:
    r"""Returns whether texts are equal without spaces, `\text{}`, and dollar signs around them."""
    return _bare(one) == _bare(other)


def _bare(text: str) -> str:
    return " ".join(_TEXT.sub(r"\1", text).split()).strip(" .\"'`*$")


def _words(text: str) -> "list[re.Match[str]]":
    found = [one for one in _LETTERS.finditer(text) if _is_word(one[0])]
    singles = [one for one in _LETTERS.finditer(text) if _is_article(text, one)]
    return sorted(found + singles, key=lambda one: one.start()) if found else []


def _is_word(letters: str) -> bool:
    if letters[0] == "\\" or len(letters) == 1 or letters in FUNCTIONS:
        return False
    if len(letters) == 2:
        return letters.lower() in SHORT_WORDS or not letters.islower()
    return any(len(part) > 1 for part in _WORD_PARTS.split(letters)) and not (
        set(letters) <= set("abcxyz")
    )


def _is_article(text: str, letter: "re.Match[str]") -> bool:
    """Returns whether a letter is `a` or `I` before a word or number, not part of a formula."""
    if letter[0] not in {"a", "A", "I"}:
        return False
    starts = letter.start() == 0 or text[letter.start() - 1].isspace()
    return starts and _BEFORE_TERM.match(text, letter.end()) is not None


def _pieces(text: str) -> list[str]:
    """Returns what is between words and ends of sentences, in order."""
    found: list[str] = []
    start = 0
    for word in [*_words(text), None]:
        stop = word.start() if word else len(text)
        found += map(_trimmed, _BREAK.split(text[start:stop]))
        start = word.end() if word else stop
    return [piece for piece in found if piece]


def _trimmed(text: str) -> str:
    """Returns a text without punctuation around it and brackets that are not closed."""
    text = text.strip(_AROUND).strip("$").strip(_AROUND)
    if _depth(text) > 0:
        text = text.rstrip("([{ ").rstrip(_AROUND)
        text = text.lstrip("([{ ") if _depth(text) > 0 else text
    elif _depth(text) < 0:
        text = text.lstrip(")]} ").lstrip(_AROUND)
        text = text.rstrip(")]} ") if _depth(text) < 0 else text
    return text.rstrip("-+ ")


def _depth(text: str) -> int:
    return sum(text.count(one) for one in "([{") - sum(text.count(one) for one in ")]}")


def _sides(expression: str) -> tuple[str, ...]:
    if "=" in expression and not re.search(r"[(\[{]", expression):
        expression = expression.rpartition(", ")[2]  # of several equations the last one
    found: list[str] = []
    for side in _APPROXIMATELY.split(expression):
        found.append(side)
        if "=" in side and "," not in side:
            found.append(side.rpartition("=")[2])
    return tuple(_latex(one.strip()) for one in found if one.strip())


def _latex(expression: str) -> str:
    """Returns an expression as LaTeX: functions, powers, percent signs and signs of Unicode."""
    for sign, tex in _SIGNS.items():
        expression = expression.replace(sign, tex)
    expression = _ROOT.sub(r"\\sqrt{\1}", expression)
    expression = _FUNCTION.sub(lambda found: f"\\{found[1]} ", expression)
    return re.sub(r"(?<!\\)%", r"\%", expression)
