"""The tasks of zen-pico: short questions with one right answer, drawn from a seed.

Half of all questions are additions below 100. A fifth of the pairs of two-digit numbers is held
out of training, in both orders: one slice decides when training stops, the other is for tests
and reports. Spelling backward is omitted on purpose, because the demo teaches it.

Only `Random.random` is used: Python guarantees that its sequence never changes.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

WITHHELD_SHARE = 0.2
STOPPING_PAIRS = 200
SPLIT_SEED = 20
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORD_LETTERS = (2, 6)


@dataclass(frozen=True)
class Problem:
    """One question and its only right answer."""

    prompt: str
    answer: str


def draw(rng: random.Random) -> Problem:
    """Returns the next training question: an addition half of the time."""
    if rng.random() < 0.5:
        return addition(*_open_pair(rng))
    return _BAG[_below(rng, len(_BAG))](rng)


def addition(left: int, right: int) -> Problem:
    """Returns the question for `left + right`."""
    return Problem(f"What is {left}+{right}?", str(left + right))


def stopping_slice() -> list[Problem]:
    """Returns the withheld additions that decide when training stops; no test uses them."""
    return [addition(*pair) for pair in _withheld_pairs()[:STOPPING_PAIRS]]


def test_slice() -> list[Problem]:
    """Returns the withheld additions that affect neither training nor when it stops."""
    return [addition(*pair) for pair in _withheld_pairs()[STOPPING_PAIRS:]]


def other_tasks(rng: random.Random, count: int) -> dict[str, list[Problem]]:
    """Returns `count` new questions of each task except addition, by name of the task."""
    return {task.__name__: [task(rng) for _ in range(count)] for task, _ in _OTHERS}


def is_withheld(left: int, right: int) -> bool:
    """Returns True for a pair that training never sees, in either order."""
    return (min(left, right), max(left, right)) in _withheld_set()


def subtraction(rng: random.Random) -> Problem:
    """Draws a subtraction below 100 whose result is not negative."""
    small, large = sorted((_below(rng, 100), _below(rng, 100)))
    return Problem(f"What is {large}-{small}?", str(large - small))


def multiplication(rng: random.Random) -> Problem:
    """Draws a product of two numbers up to 12."""
    left, right = _below(rng, 13), _below(rng, 13)
    return Problem(f"What is {left}*{right}?", str(left * right))


def comparison(rng: random.Random) -> Problem:
    """Draws two numbers below 100 to compare."""
    left, right = _below(rng, 100), _below(rng, 100)
    return Problem(f"Which is more, {left} or {right}?", str(max(left, right)))


def repeat(rng: random.Random) -> Problem:
    """Draws a word to copy."""
    word = _word(rng)
    return Problem(f"Repeat {word}.", word)


def capitals(rng: random.Random) -> Problem:
    """Draws a word to write in upper case."""
    word = _word(rng)
    return Problem(f"Write {word} in capitals.", word.upper())


def first_letter(rng: random.Random) -> Problem:
    """Draws a word whose first letter is the answer."""
    word = _word(rng)
    return Problem(f"First letter of {word}?", word[0])


def last_letter(rng: random.Random) -> Problem:
    """Draws a word whose last letter is the answer."""
    word = _word(rng)
    return Problem(f"Last letter of {word}?", word[-1])


def spell(rng: random.Random) -> Problem:
    """Draws a word to spell with spaces between its letters."""
    word = _word(rng)
    return Problem(f"Spell {word}.", " ".join(word))


# each task except addition, and how often it is drawn; the first letter is the easiest to learn
_OTHERS: tuple[tuple[Callable[[random.Random], Problem], int], ...] = (
    (subtraction, 2),
    (multiplication, 2),
    (comparison, 2),
    (repeat, 2),
    (capitals, 2),
    (first_letter, 1),
    (last_letter, 2),
    (spell, 2),
)
_BAG = tuple(task for task, tickets in _OTHERS for _ in range(tickets))


def _below(rng: random.Random, stop: int) -> int:
    return int(rng.random() * stop)


def _word(rng: random.Random) -> str:
    shortest, longest = WORD_LETTERS
    length = shortest + _below(rng, longest - shortest + 1)
    return "".join(LETTERS[_below(rng, len(LETTERS))] for _ in range(length))


def _open_pair(rng: random.Random) -> tuple[int, int]:
    while True:
        left, right = _below(rng, 100), _below(rng, 100)
        if not is_withheld(left, right):
            return left, right


@cache
def _withheld_pairs() -> tuple[tuple[int, int], ...]:
    """Returns the withheld pairs, each in one of its two orders, shuffled."""
    rng = random.Random(SPLIT_SEED)  # noqa: S311 - reproducible, not secret
    pairs = [(left, right) for left in range(10, 100) for right in range(left, 100)]
    keyed = sorted((rng.random(), pair) for pair in pairs)
    chosen = [pair for _, pair in keyed[: round(WITHHELD_SHARE * len(pairs))]]
    return tuple((a, b) if rng.random() < 0.5 else (b, a) for a, b in chosen)


@cache
def _withheld_set() -> frozenset[tuple[int, int]]:
    return frozenset((min(pair), max(pair)) for pair in _withheld_pairs())
