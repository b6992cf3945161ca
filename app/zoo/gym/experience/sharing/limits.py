"""Keeps lessons of others from flooding a library: none that says the same, few of one author.

Two lessons say the same if they share at least 92 % of their words in the same order, and all
numbers and negations: a difference in those may reverse the meaning. An author is the trusted key
that signed the file; all others count as one, because anybody can have many keys.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher

from zoo.gym.errors import InputError
from zoo.gym.experience.library.item import Item, LeftOut

MOST_OF_ONE = 16
"""The lessons of one author in a library, a third of its limit, unless the user wants more."""

_ALIKE = 0.92
_WORD = re.compile(r"\w+(?:['\u2019]\w+)?")
_EXACT = re.compile(
    r"\d|n['\u2019]t$"
    r"|^(?:no|not|never|none|nor|neither|without|avoid|except|unless|before|after|cannot)$"
)


def alike(text: str, other: str) -> bool:
    """Returns whether two lessons say the same.

    >>> alike("Check the sign first.", "check the sign, first")
    True
    >>> alike("Check the sign first.", "Never check the sign first.")
    False
    """
    return alike_words(words_of(text), words_of(other))


def alike_words(first: Sequence[str], second: Sequence[str]) -> bool:
    """Returns whether two lessons say the same, given their words."""
    common = min(len(second), sum(map(set(second).__contains__, first)))  # no more can match
    if 2 * common < _ALIKE * (len(first) + len(second)):
        return False
    if [*filter(_EXACT.search, first)] != [*filter(_EXACT.search, second)]:
        return False
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    return matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE


def limited(
    items: Iterable[Item], library: Sequence[Item], most: int, released: Collection[str] = ()
) -> tuple[list[Item], list[LeftOut]]:
    """Returns the lessons that a library takes, and those that it does not.

    `items` are lessons of others, the best first, `library` the other lessons. `released` are the
    ids of lessons that are taken although another says the same.

    Raises:
        InputError: `most` is less than 1.
    """
    if most < 1:
        raise InputError(f"--most: expected at least 1, got {most}", code="experience.most")
    taken: list[Item] = []
    left_out: list[LeftOut] = []
    counts = Counter(map(_author, library))
    for item in items:
        author = _author(item)
        same = next((old for old in [*library, *taken] if alike(old.text, item.text)), None)
        if same is not None and item.id not in released:
            left_out.append(LeftOut(item, f"it says the same as [{same.id[:6]}] {same.text}"))
        elif author is not None and counts[author] >= most:
            left_out.append(LeftOut(item, f"there are {most} lessons of its author"))
        else:
            taken.append(item)
            counts[author] += 1
    return taken, left_out


def _author(item: Item) -> str | None:
    """Returns the key of the author, empty if it is not known, None for the user's own."""
    return None if item.step and not item.author else item.author


def words_of(text: str) -> list[str]:
    """Returns the words of a lesson, by which it is compared with others."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
