"""A lesson: a short text, its origin, and its measurements."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zoo.gym.errors import InputError

MOST_WORDS = 32
"""The most words of a lesson, as in the published prompt; enforced here."""

MOST_CHARACTERS = 400
"""Words can be long."""

_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Item:
    """A lesson.

    Attributes:
        text: what the model reads, on one line.
        parents: the ids of the lessons that it replaced.
        sources: hashes of the tasks that it was learned from; never their texts.
        better: answers of those tasks that were better than others when it was learned.
        worse: answers that were worse.
        model: the model that it was learned for; empty if it is not known.
        step: the step of the run that added it, from 1; 0 if it is from elsewhere.
        licence: what its author allows; empty if it is not known.
        evidence: the result of a measurement; empty without one.
        pinned: whether it is in every prompt, also if only the nearest lessons are.
        author: the trusted key that signed the file which it was taken from; empty for lessons of
            this user, and of an unknown author.
    """

    text: str
    parents: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    better: int = 0
    worse: int = 0
    model: str = ""
    step: int = 0
    licence: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict[str, object])
    pinned: bool = False
    author: str = ""

    @property
    def id(self) -> str:
        """The hash of the text: 16 hexadecimal digits."""
        return item_id(self.text)

    @property
    def is_foreign(self) -> bool:
        """Whether it comes from elsewhere, and no keys that the user trusts have measured it."""
        return self.step == 0 and "keys" not in self.evidence


class LeftOut(NamedTuple):
    """A lesson that is left out or held back, and why."""

    item: Item
    why: str


def item_id(text: str) -> str:
    """Returns the id of the lesson with a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_item_id(value: object) -> bool:
    """Returns whether a value has the form of an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def lesson_text(text: str) -> str:
    """Returns the text of a lesson: one line, single blanks.

    Raises:
        InputError: it is empty, too long, or contains control characters.
    """
    plain = " ".join(text.split())
    if not plain:
        raise InputError("lesson: expected some text, got none", code="experience.lesson")
    if not plain.isprintable():
        raise InputError(
            "lesson: expected printable text, got control characters", code="experience.lesson"
        )
    words = len(plain.split(" "))
    if words > MOST_WORDS or len(plain) > MOST_CHARACTERS:
        raise InputError(
            f"lesson: expected at most {MOST_WORDS} words and {MOST_CHARACTERS} characters, got "
            f"{words} words and {len(plain)} characters",
            code="experience.lesson",
        )
    return plain


def is_lesson(text: str) -> bool:
    """Returns whether a text is that of a lesson."""
    try:
        return lesson_text(text) == text
    except InputError:
        return False


def task_hash(text: str) -> str:
    """Returns the hash of a task's text, which names a source."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
