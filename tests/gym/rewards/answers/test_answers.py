"""Exact and numeric rewards, and the choice between them for each row."""

import pytest

from tests.gym.rewards.conftest import sample, task
from zoo.gym.config.reward import ExactSettings, NumericSettings
from zoo.gym.rewards.answers.either import Either
from zoo.gym.rewards.answers.exact import Exact
from zoo.gym.rewards.answers.numeric import Numeric


@pytest.mark.parametrize(
    ("response", "answer", "value"),
    [
        ("Paris", "paris", 1.0),
        ("The answer is **Paris**.", "Paris", 1.0),
        ("The answer is B", "(B)", 1.0),
        ("It is Paris", "Paris", 0.0),
        ("<answer>b</answer>", ["a", "B"], 1.0),
        ("", "Paris", 0.0),
        ("Answer: B", "Answer: B", 1.0),
        ("The answer is B", "Answer: B", 1.0),
        ("B", "Answer: B", 1.0),
        ("A", "Answer: B", 0.0),
        ("Answer: A", "Answer: B", 0.0),
        ("<think>Answer: B", "Answer: B", 0.0),
        ("5", ".5", 0.0),
        (".5", ".5", 1.0),
        ("**.5**.", ".5", 1.0),
        ("...Paris...", "Paris", 1.0),
        ("x2", "x\u00b2", 0.0),
        ("x^2", "x\u00b2", 1.0),
        ("H2O", "H\u2082O", 1.0),
        ("...", "Paris", 0.0),
        ("*", "*", 1.0),
        ("", "*", 0.0),
    ],
)
def test_exact_compares_the_final_answer(response: str, answer: object, value: float) -> None:
    assert Exact().score([sample(response, answer)])[0].value == value


def test_case_counts_where_the_option_says_so() -> None:
    reward = Exact(ExactSettings(ignore_case=False))
    values = [reward.score([sample(text, "Paris")])[0].value for text in ("Paris", "paris")]
    assert values == [1.0, 0.0]


def test_the_whole_response_is_compared_where_the_option_says_so() -> None:
    reward = Exact(ExactSettings(part="whole"))
    texts = ("the answer is Paris", "<think>hm</think>Paris")
    assert [reward.score([sample(text, "Paris")])[0].value for text in texts] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("response", "answer", "value"),
    [
        ("48/2 = 24, and 48 + 24 = 72", "72", 1.0),
        ("it is 72, I think", 72, 1.0),
        ("72 or 73", "72", 0.0),
        ("#### 1,000", "1000", 1.0),
        ("0.5", "1/2", 1.0),
        ("50%", "0.5", 1.0),
        ("50%", "50", 1.0),
        ("50", "50%", 1.0),
        ("0.3333333", "1/3", 1.0),
        ("0.333333", "1/3", 1.0),
        ("0.333", "1/3", 0.0),
        ("none", "5", 0.0),
        ("<think>5", "5", 0.0),
    ],
)
def test_numeric_compares_the_last_number(response: str, answer: object, value: float) -> None:
    assert Numeric().score([sample(response, answer)])[0].value == value


@pytest.mark.parametrize(
    ("response", "answer", "value"),
    [
        ("101", "100", 1.0),
        ("102", "100", 0.0),
        ("0.0101", "0.01", 1.0),
        ("0.0102", "0.01", 0.0),
        ("-0.01", "0.01", 0.0),
        ("0.0", "0", 1.0),
        ("0.001", "0", 0.0),
    ],
)
def test_the_tolerance_is_relative_to_the_number_of_the_row(
    response: str, answer: str, value: float
) -> None:
    reward = Numeric(NumericSettings(tolerance=0.01))
    assert reward.score([sample(response, answer)])[0].value == value


def test_no_tolerance_compares_exactly() -> None:
    reward = Numeric(NumericSettings(tolerance=0))
    assert reward.score([sample("0.3333333333333333", "1/3")])[0].value == 0.0


def test_a_wrong_answer_says_what_was_expected() -> None:
    assert Numeric().score([sample("it is 6", "5")])[0].reason == "expected 5, got 6"
    assert Exact().score([sample("Rome", "Paris")])[0].reason == 'expected "Paris", got "Rome"'


def test_a_row_that_cannot_be_compared_has_no_reward() -> None:
    score = Numeric().score([sample("5", "five")])[0]
    assert score.failed
    assert score.reason == 'the answer "five" is not a number'
    assert Numeric().missing(task()) == Exact().missing(task()) == "no answer"


def test_each_row_is_compared_as_its_answer_is() -> None:
    samples = [sample("it is 5.0", "5"), sample("(C)", "C"), sample("it is C", "C")]
    assert [score.value for score in Either().score(samples)] == [1.0, 1.0, 0.0]


def test_control_characters_of_a_response_are_escaped_in_a_reason() -> None:
    reason = Exact().score([sample("\x1b[31mred\n", "blue")])[0].reason
    assert reason == 'expected "blue", got "\\x1b[31mred"'
