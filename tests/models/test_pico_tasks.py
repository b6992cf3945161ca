"""zen-pico's questions: what is drawn, and what is kept out of training."""

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pico import tasks


def two_digit_sum(prompt: str) -> tuple[int, int]:
    """Returns the operands of `What is a+b?`."""
    left, right = prompt.removeprefix("What is ").removesuffix("?").split("+")
    return int(left), int(right)


@given(seed=st.integers(0, 2**32))
def test_training_never_draws_a_withheld_addition_in_either_order(seed: int) -> None:
    rng = random.Random(seed)
    prompts = [tasks.draw(rng).prompt for _ in range(50)]
    additions = [two_digit_sum(prompt) for prompt in prompts if "+" in prompt]
    assert not any(tasks.is_withheld(*pair) for pair in additions)


def test_a_fifth_of_the_pairs_is_withheld_once_each() -> None:
    pairs = [
        two_digit_sum(problem.prompt) for problem in tasks.stopping_slice() + tasks.test_slice()
    ]
    unordered = {frozenset(pair) for pair in pairs}
    assert len(unordered) == len(pairs) == 819  # a fifth of 90 * 91 / 2 = 4,095


def test_no_test_sees_the_slice_that_stops_the_training() -> None:
    stopping = {frozenset(two_digit_sum(problem.prompt)) for problem in tasks.stopping_slice()}
    tested = {frozenset(two_digit_sum(problem.prompt)) for problem in tasks.test_slice()}
    assert len(stopping) == 200
    assert stopping.isdisjoint(tested)


def test_half_of_the_questions_are_additions() -> None:
    rng = random.Random(0)
    share = sum("+" in tasks.draw(rng).prompt for _ in range(10_000)) / 10_000
    assert abs(share - 0.5) < 0.02  # four standard errors


@given(seed=st.integers(0, 2**32))
def test_no_question_asks_to_spell_backward(seed: int) -> None:
    rng = random.Random(seed)
    prompts = [tasks.draw(rng).prompt.lower() for _ in range(50)]
    assert not any("back" in prompt or "reverse" in prompt for prompt in prompts)


def test_answers_are_right() -> None:
    rng = random.Random(3)
    for name, problems in tasks.other_tasks(rng, 20).items():
        for problem in problems:
            assert problem.answer == expected_answer(name, problem.prompt)


def expected_answer(name: str, prompt: str) -> str:
    """Returns the answer to a question, worked out from its words alone."""
    body = prompt.rstrip("?.")
    numbers = [int(number) for number in "".join(c if c.isdigit() else " " for c in body).split()]
    word = body.split()[1 if name in {"repeat", "capitals", "spell"} else -1]
    answers: dict[str, Callable[[], str]] = {
        "subtraction": lambda: str(numbers[0] - numbers[1]),
        "multiplication": lambda: str(numbers[0] * numbers[1]),
        "comparison": lambda: str(max(numbers)),
        "repeat": lambda: word,
        "capitals": word.upper,
        "first_letter": lambda: word[0],
        "last_letter": lambda: word[-1],
        "spell": lambda: " ".join(word),
    }
    return answers[name]()
