"""The texts that ship with the program: questions, prompts and prose."""

import re

import pytest

from zoo.gym.retention.questions import Question, plain_text, prompts, questions


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def test_no_question_contains_its_own_answer() -> None:
    assert len(questions()) == 60
    assert [each.question for each in questions() if each.is_right(each.question)] == []


def test_no_prompt_to_retain_is_a_question() -> None:
    assert len(set(prompts())) == len(prompts()) > 130
    assert not {words(text) for text in prompts()} & {words(each.question) for each in questions()}


def test_plain_text_has_32_kilobytes() -> None:
    assert 32_000 < len(plain_text().encode()) < 33_500


@pytest.mark.parametrize(
    ("answer", "right"),
    [("It is 4.", True), ("Four", True), ("44", False), ("fourteen", False), ("", False)],
)
def test_an_answer_is_right_by_a_whole_word(answer: str, right: bool) -> None:
    assert Question("What is 2 + 2?", ("4", "four")).is_right(answer) is right
