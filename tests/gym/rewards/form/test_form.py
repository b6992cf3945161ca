"""The form and the length of a response."""

import math

import pytest

from tests.gym.rewards.conftest import sample
from zoo.gym.config.reward import FormatSettings, LengthSettings
from zoo.gym.rewards import Sample, load
from zoo.gym.rewards.form.form import Form, fault_of_form
from zoo.gym.rewards.form.length import Length


@pytest.mark.parametrize(
    ("form", "response", "right"),
    [
        ("think", "<think>\nhm\n</think>\n\n5", True),
        ("think", "hm</think>5", True),
        ("think", "5", False),
        ("think", "<think>hm</think>", False),
        ("think", "<think>hm", False),
        ("think", "5 <think>hm</think> 5", False),
        ("think", "<think>a</think><think>b</think>5", False),
        ("answer", "so <answer>5</answer>\n", True),
        ("answer", "<answer>5</answer> it is", False),
        ("answer", "<answer>4</answer><answer>5</answer>", False),
        ("answer", "<answer> </answer>", False),
        ("answer", "<answer>5", False),
        ("think-answer", "<think>hm</think> <answer>5</answer>", True),
        ("think-answer", "<think><answer>4</answer></think> <answer>5</answer>", True),
        ("think-answer", "<think>hm</think> 5", False),
        ("think-answer", "<answer>5</answer>", False),
        ("boxed", r"it is \boxed{\frac{1}{2}}", True),
        ("boxed", r"it is \boxed{5", False),
        ("boxed", "#### 5", False),
        ("boxed", r"<think>\boxed{5}", False),
        ("boxed", r"<think>\boxed{5}</think> so it is 5", False),
        ("boxed", r"<think>hm</think> \boxed{5}", True),
        ("boxed", r"<think>hm</think> 4 <think>\boxed{5}", False),
        ("boxed", "\\boxed{\n#### 5", False),
        ("boxed", r"\boxed{ } <answer>5</answer>", False),
        ("answer", "<think><answer>5</answer>", False),
        ("answer", "<think>hm</think><answer>5</answer>", True),
    ],
)
def test_a_form_is_recognised(form: str, response: str, right: bool) -> None:
    assert (fault_of_form(response, form) is None) is right


def test_a_response_without_its_form_says_what_is_missing() -> None:
    score = Form(FormatSettings(form="answer")).score([sample("5")])[0]
    assert (score.value, score.reason) == (0.0, "expected one answer block at the end")


@pytest.mark.parametrize(
    ("tokens", "value"), [(1, 0.0), (60, 0.0), (70, -0.25), (100, -1.0), (900, -1.0)]
)
def test_the_penalty_grows_over_the_margin(tokens: int, value: float) -> None:
    reward = Length(LengthSettings(most=100, margin=40))
    assert reward.score([Sample(sample("").task, "", tokens)])[0].value == value


@pytest.mark.parametrize(("tokens", "value"), [(99, 0.0), (100, 0.0), (101, -1.0)])
def test_without_a_margin_only_what_is_longer_costs(tokens: int, value: float) -> None:
    reward = Length(LengthSettings(most=100))
    assert reward.score([Sample(sample("").task, "", tokens)])[0].value == value


def test_words_and_characters_are_counted_in_the_text() -> None:
    words, characters = (LengthSettings(most=3, unit=unit) for unit in ("words", "characters"))
    assert [Length(words).score([sample(text)])[0].value for text in ("a b c", "a b c d")] == [
        0,
        -1,
    ]
    assert [Length(characters).score([sample(text)])[0].value for text in ("abc", "abcd")] == [
        0,
        -1,
    ]


def test_an_unknown_number_of_tokens_is_no_reward() -> None:
    assert math.isnan(Length(LengthSettings(most=3)).score([sample("a")])[0].value)


def test_forms_and_lengths_are_named_in_settings() -> None:
    spec = {"format": {"form": "boxed"}, "length": {"most": 2, "unit": "words", "weight": 0.5}}
    with load(spec, []) as reward:
        assert reward.score([sample(r"a b \boxed{5}")])[0].value == 1.0 - 0.5
