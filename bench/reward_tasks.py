"""Four tasks that zen-pico seldom answers right, to test rewards that are seldom earned.

Defaults are tuned on additions alone (`bench.rewards`), and these are only measured. Each prompt
has one right answer. All are drawn with one seed, and no unseen prompt is among the learned ones.

usage: python -m bench.reward_tasks      prints what zen-pico answers right before training
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SEED = 11
LEARNED, UNSEEN = 2000, 200
"""The most prompts of a task to learn, and those that are asked afterwards."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Problem:
    """One question and its only right answer."""

    prompt: str
    answer: str


def bare_product(rng: random.Random) -> Problem:
    """Draws a product that is asked without words."""
    left, right = rng.randrange(2, 13), rng.randrange(2, 13)
    return Problem(f"{left}*{right}=", str(left * right))


def bare_sum(rng: random.Random) -> Problem:
    """Draws an addition that is asked without words."""
    left, right = rng.randrange(10, 50), rng.randrange(10, 50)
    return Problem(f"{left}+{right}=", str(left + right))


def middle(rng: random.Random) -> Problem:
    """Draws three numbers; the answer is the one between the others."""
    numbers = rng.sample(range(10, 100), 3)
    first, second, third = numbers
    median = sorted(numbers)[1]
    return Problem(f"Which is in the middle, {first}, {second} or {third}?", str(median))


def second_letter(rng: random.Random) -> Problem:
    """Draws a word of two to eight letters whose second letter is the answer."""
    word = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(2, 9)))
    return Problem(f"Second letter of {word}?", word[1])


TASKS: dict[str, Callable[[random.Random], Problem]] = {
    task.__name__: task for task in (bare_product, bare_sum, middle, second_letter)
}


def problems(name: str) -> tuple[list[Problem], list[Problem]]:
    """Returns the prompts of a task to learn, and others that are asked afterwards."""
    rng = random.Random(f"{SEED} {name}")
    drawn = list(dict.fromkeys(TASKS[name](rng) for _ in range(2 * LEARNED)))
    unseen = min(UNSEEN, len(drawn) // 5)
    return drawn[unseen : unseen + LEARNED], drawn[:unseen]


def share_right(name: str, adapter: Path | None = None) -> float:
    """Returns the share of a task's unseen prompts that zen-pico answers right, greedily."""
    from zoo.gym import generate

    _, unseen = problems(name)
    prompts = [each.prompt for each in unseen]
    answers = generate("zen-pico", prompts, adapter=adapter, max_new_tokens=16)
    pairs = zip(answers, unseen, strict=True)
    return sum(answer.strip() == each.answer for answer, each in pairs) / len(unseen)


if __name__ == "__main__":
    for task in TASKS:
        learned, unseen = problems(task)
        print(f"{task:14} {len(learned):5} learned {len(unseen):4} unseen {share_right(task):6.1%}")
