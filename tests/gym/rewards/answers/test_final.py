"""The final answer of a response."""

import pytest

from zoo.gym.rewards.answers.final import accepted_answers, final_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("5", "5"),
        ("  so it is five \n", "so it is five"),
        ("<think>7?</think>\n\n5", "5"),
        ("7?</think>5", "5"),
        ("<think>it is 5", ""),
        ("a <answer>4</answer> then <answer> 5 </answer>", "5"),
        (r"thus \boxed{\frac{1}{2}} holds", r"\frac{1}{2}"),
        (r"\boxed{1} or rather \boxed{2", "1"),
        (r"<answer>\boxed{3}</answer>", "3"),
        ("2+3\n#### 5", "5"),
        ("The answer is (A).", "(A)."),
        ("**Answer:** Paris", "Paris"),
        ("### ANSWER: 2/3 ###", "2/3"),
        ("the answer is unclear, but I say 5", "unclear, but I say 5"),
    ],
)
def test_the_most_explicit_answer_counts(response: str, answer: str) -> None:
    assert final_answer(response) == answer


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
