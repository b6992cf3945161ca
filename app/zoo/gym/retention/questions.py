"""The questions, the prompts to retain answers of, and the plain text that ship with the program.

An answer is right if one of the listed words or phrases stands in it, whatever the case of its
letters. No question contains its own answer.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True)
class Question:
    """A question, and the words any of which makes an answer right."""

    question: str
    answers: tuple[str, ...]

    def is_right(self, answer: str) -> bool:
        """Returns whether an answer contains one of the words.

        >>> Question("What is 2 + 2?", ("4", "four")).is_right("It is Four.")
        True
        >>> Question("What is 2 + 2?", ("4", "four")).is_right("It is 44.")
        False
        """
        words = "|".join(map(re.escape, self.answers))
        return re.search(rf"(?<!\w)(?:{words})(?!\w)", answer, re.IGNORECASE) is not None


@cache
def questions() -> tuple[Question, ...]:
    """Returns the 60 questions."""
    lines = (TEXTS / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = map(json.loads, lines)
    return tuple(Question(row["question"], tuple(row["answers"])) for row in rows)


@cache
def prompts() -> tuple[str, ...]:
    """Returns the prompts whose answers a run can retain; none is one of the questions."""
    return tuple((TEXTS / "prompts.txt").read_text(encoding="utf-8").splitlines())


@cache
def plain_text() -> str:
    """Returns 32 kB of plain prose."""
    return (TEXTS / "plain.txt").read_text(encoding="utf-8")
