"""Made-up words to spell backward: the demo's generator and scorer.

Only `Random.random` is used: Python guarantees that its sequence never changes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORTEST, LONGEST = 3, 5
SEED = 7


@dataclass(frozen=True)
class Words:
    """Words to learn from and unseen words; no word or its reverse is in both."""

    train: tuple[str, ...]
    unseen: tuple[str, ...]


def make_words(train: int, unseen: int, seed: int = SEED) -> Words:
    """Draws different words of 3 to 5 letters, none of them equal to its own reverse."""
    rng = random.Random(seed)  # noqa: S311
    words: dict[str, None] = {}
    while len(words) < train + unseen:
        length = SHORTEST + int(rng.random() * (LONGEST - SHORTEST + 1))
        word = "".join(LETTERS[int(rng.random() * len(LETTERS))] for _ in range(length))
        if backward(word) not in words and backward(word) != word:
            words[word] = None
    spelled = tuple(words)
    return Words(train=spelled[unseen:], unseen=spelled[:unseen])


def backward(word: str) -> str:
    """Returns the word spelled backward."""
    return word[::-1]


def prompt(word: str) -> str:
    """Returns the prompt for a word."""
    return f"Spell {word} backward."


def accuracy(words: Sequence[str], answers: Sequence[str]) -> float:
    """Returns the share of words whose answer is exactly the word backward."""
    right = [a.strip() == backward(w) for w, a in zip(words, answers, strict=True)]
    return sum(right) / len(right)
