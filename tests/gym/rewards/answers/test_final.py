"""The final answer of a response."""

import time

import pytest

from tests.gym.rewards.conftest import sample
from tests.night import one_in
from zoo.gym.rewards.answers.expressions import readings, stated
from zoo.gym.rewards.answers.final import accepted_answers, final_answer
from zoo.gym.rewards.answers.last_number import last_number, only_number
from zoo.gym.rewards.answers.numbers import find_numbers
from zoo.gym.rewards.code.solution import solution_of
from zoo.gym.rewards.form.form import fault_of_form


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("5", "5"),
        ("  so it is five \n", "so it is five"),
        ("<think>7?</think>\n\n5", "5"),
        ("7?</think>5", "5"),
        ("<think>it is 5", ""),
        ("<think>hm</think> 4? <think>it is 5", ""),
        ("a <answer>4</answer> then <answer> 5 </answer>", "5"),
        (r"thus \boxed{\frac{1}{2}} holds", r"\frac{1}{2}"),
        (r"\boxed{1} or rather \boxed{2", "1"),
        (r"<answer>\boxed{3}</answer>", "3"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        ("<ANSWER>5</Answer> and <answer>6", "5"),
        ("answer is   \n5", "answer is   \n5"),
        ("2+3\n#### 5", "5"),
        ("The answer is (A).", "(A)."),
        ("**Answer:** Paris", "Paris"),
        ("### ANSWER: 2/3 ###", "2/3"),
        ("the answer is unclear, but I say 5", "unclear, but I say 5"),
    ],
)
def test_the_most_explicit_answer_counts(response: str, answer: str) -> None:
    assert final_answer(response) == answer


@pytest.mark.parametrize(
    "piece",
    [
        "<answer>",
        "</answer>",
        r"\boxed{",
        "#### ",
        "answer is ",
        "answer: ",
        "</think>",
        "<think>",
        "1,111",
        "1 000 ",
        "minus ",
        "\u221a(",
        "m^",
        "<a ",
        r"\frac{",
        "```\n",
    ],
)
@pytest.mark.parametrize("between", one_in(2, [" " * 2000, ""]))
@pytest.mark.slow
def test_the_time_grows_no_faster_than_the_response(piece: str, between: str) -> None:
    def seconds(characters: int) -> float:
        response = (piece + between) * (characters // len(piece + between))
        return min(seconds_to_read(response) for _ in range(3))

    # Sixteen times the characters: 16 times the seconds, or 256 if it were quadratic. The bound
    # lies between, far enough from both for a busy machine.
    assert seconds(100_000) < 64 * seconds(6_250) + 0.1


def seconds_to_read(response: str) -> float:
    since = time.process_time()
    text = final_answer(response)
    find_numbers(text)
    last_number(text)
    only_number(text)
    readings(text[-20_000:])
    stated(text[-20_000:])
    fault_of_form(response, "think-answer")
    solution_of(sample(response))
    return time.process_time() - since


def test_reasoning_is_never_the_answer() -> None:
    assert final_answer(r"<think>\boxed{5}</think> I do not know") == "I do not know"


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        (None, ()),
        ("  ", ()),
        ("5", ("5",)),
        (5, ("5",)),
        (2.5, ("2.5",)),
        (True, ("true",)),
        (["a", "b"], ("a", "b")),
        ("2+3=<<2+3=5>>5\n#### 5", ("5",)),
        (r"It is $\boxed{7}$.", ("7",)),
        ("the answer is 5", ("the answer is 5",)),
    ],
)
def test_a_row_accepts_its_answer_or_any_of_its_list(
    answer: object, accepted: tuple[str, ...]
) -> None:
    assert accepted_answers(answer) == accepted
