r"""Finds the mathematics of a text that marks none with `$...$`, `\(...\)` or `\boxed{}`.

math-verify parses LaTeX between such marks, and in plain text only numbers: the last one, even if
it is part of a pair. Left out: the meaning of words, so that `two thirds` is no number.
"""

import re

from zoo.gym.rewards.answers.notation import plain

_NAMED = r"\\(?:begin|end|text\w*|mathrm|mathbf|mbox|operatorname\*?)\s*\{[^{}]*\}"
_LETTERS = re.compile(rf"{_NAMED}|\\[A-Za-z]+|[A-Za-z]+(?:['\u2019-][A-Za-z]+)*")
_DELIMITED = re.compile(r"\$[^$]+\$|\\\(|\\\[|\\boxed\b")
_LEADING = re.compile(r"\$+([^$]+)\$+|\\\((.+?)\\\)|\\\[(.+?)\\\]")
_WORD_PARTS = re.compile("['\u2019-]")
_CANDIDATE = re.compile(r"\d|\\[A-Za-z]|\w\s*[-+*/^=]\s*\w")
_BREAK = re.compile(r"\n|[;?!]|[.:](?=\s|$)")
_CHOICE = re.compile(r"\b(?:or|and)\b")
_ASSIGNMENTS = re.compile(r"\s*[A-Za-z]\s*=[^=,]*(?:,\s*[A-Za-z]\s*=[^=,]*)+")
"""Several variables with their values: `x=5, y=6` is a pair."""

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


_FUNCTION = re.compile(rf"(?<![\\A-Za-z])({'|'.join(sorted(FUNCTIONS, reverse=True))})(?![A-Za-z])")
_SIGNED_POWER = re.compile(r"\^\s*([-+](?:\d+(?:\.\d+)?|[A-Za-z]))")
_LONG_POWER = re.compile(r"\^\s*(\d{2,})")
_SCIENTIFIC = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,4})(?![\w.]\d|\w)")
_MIXED = re.compile(
    r"(?<![\w.,^/}])(\d+)\s?(?:\\[dt]?frac\{(\d+)\}\{(\d+)\}| (\d+)/(\d+))(?![\d/^])"
)
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?")
_GROUP_END = re.compile(r"\\(?:left|right|!|,)|\s")


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
    pieces = [piece for piece in _pieces(text) if _CANDIDATE.search(piece)]
    return _sides(pieces[-1]) if pieces else ()


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
    pieces = [piece for piece in _pieces(text) if _CANDIDATE.search(piece)]
    return _latex(pieces[0]) if len(pieces) == 1 else None


def same_text(first: str, second: str) -> bool:
    r"""Returns whether texts are equal without spaces, `\text{}`, and dollar signs around them."""
    return _bare(first) == _bare(second)


def _bare(text: str) -> str:
    return " ".join(_TEXT.sub(r"\1", text).split()).strip(" .\"'`*$")


def _words(text: str) -> "list[re.Match[str]]":
    words = [match for match in _LETTERS.finditer(text) if _is_word(match[0])]
    singles = [match for match in _LETTERS.finditer(text) if _is_article(text, match)]
    return sorted(words + singles, key=lambda match: match.start()) if words else []


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
    pieces: list[str] = []
    start = 0
    for word in [*_words(text), None]:
        stop = word.start() if word else len(text)
        pieces += map(_trimmed, _BREAK.split(text[start:stop]))
        start = word.end() if word else stop
    return [piece for piece in pieces if piece]


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
    return sum(text.count(bracket) for bracket in "([{") - sum(
        text.count(bracket) for bracket in ")]}"
    )


def _sides(expression: str) -> tuple[str, ...]:
    is_one = "=" not in expression or re.search(r"[(\[{]", expression)
    if not is_one and not _ASSIGNMENTS.fullmatch(expression):
        expression = expression.rpartition(", ")[2]  # of several equations the last one
    sides: list[str] = []
    for side in _APPROXIMATELY.split(expression):
        sides.append(side)
        if "=" in side and "," not in side:
            sides.append(side.rpartition("=")[2])
    return tuple(_latex(piece.strip()) for piece in sides if piece.strip())


def _latex(expression: str) -> str:
    """Returns an expression as LaTeX: functions and percent signs."""
    expression = _FUNCTION.sub(lambda match: f"\\{match[1]} ", expression.replace("**", "^"))
    return re.sub(r"(?<!\\)%", r"\%", expression)


def mathematics(text: str) -> str:
    r"""Returns a text with its mathematics in the form that a parser of LaTeX reads whole.

    The signs are those of `plain`; signed and long exponents get braces, `1.5e-3` is a power of
    ten, and `1 1/2` one fraction. The parser reads `10^-1` as 10 and `\sqrt13` as 3.

    Example:
        >>> mathematics("10⁻⁴"), mathematics("10^-1"), mathematics("1.5e-3"), mathematics("1 1/2")
        ('10^{-4}', '10^{-1}', '1.5\\times 10^{-3}', '\\frac{3}{2}')
    """
    text = _DEGREES.sub(" ", plain(text))
    text = _SCIENTIFIC.sub(r"\1\\times 10^{\2}", text)
    text = _LONG_POWER.sub(r"^{\1}", _SIGNED_POWER.sub(r"^{\1}", text))
    return _MIXED.sub(_improper, text)


def _improper(match: "re.Match[str]") -> str:
    """Returns a mixed number as one fraction."""
    number, top, bottom = int(match[1]), int(match[2] or match[4]), int(match[3] or match[5])
    mixed = 0 < top < bottom
    return f"\\frac{{{number * bottom + top}}}{{{bottom}}}" if mixed else match[0]


def same_notation(expected: str, got: str) -> bool:
    r"""Returns whether two expressions of equal value also mean the same by how they are written.

    Upper and lower case are different letters, a set is no pair, and a ratio is no fraction unless
    the wanted answer is a ratio; math-verify takes them for equal.

    Example:
        >>> [same_notation(*two) for two in (("(1,2)", "{1,2}"), ("2A", "2a"), ("3/4", "3:4"))]
        [False, False, False]
    """
    brackets = {_bracket(expected), _bracket(got)} - {""}
    is_ratio = ":" in got and ":" not in expected
    return len(brackets) < 2 and not is_ratio and not _differ_in_case(expected, got)


def _bracket(expression: str) -> str:
    """Returns the kind of brackets around several entries, `(` or `{`; empty for none."""
    bare = _GROUP_END.sub("", expression).strip("$").replace("\\{", "{").replace("\\}", "}")
    around = bare[:1] + bare[-1:]
    if "," not in bare:
        return ""
    return "{" if around == "{}" else "(" if around in {"()", "[]", "(]", "[)"} else ""


def _differ_in_case(text: str, reply: str) -> bool:
    """Returns whether one expression has a letter that the other only has in the other case."""
    first, second = _variables(text), _variables(reply)
    return any(letter.swapcase() in second for letter in first - second)


def _variables(expression: str) -> set[str]:
    bare = re.sub(rf"{_NAMED}|\\[A-Za-z]+", " ", expression)
    return {letter for letter in bare if letter.isalpha()}
