"""The checks of IFEval: an answer that follows each, and one that does not."""

from typing import Any

import pytest

from zoo.gym.evaluate.items import Item
from zoo.gym.evaluate.tasks.instructions import CHECKS, follows_all, ifeval_row
from zoo.gym.rewards import Task

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("keywords:existence", {"keywords": ["sea", "sun"]}, "Sun and SEA", "sun"),
    ("keywords:frequency", {"keyword": "a", "frequency": 2, "relation": "at least"}, "a A", "a"),
    ("keywords:forbidden_words", {"forbidden_words": ["sea"]}, "seal", "the Sea"),
    (
        "keywords:letter_frequency",
        {"letter": "e", "let_frequency": 2, "let_relation": "less than"},
        "We",
        "wEe",
    ),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "a b c", "a b"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a *** b", "a"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "So"},
        "a\n\nso, b",
        "so a\n\nb",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[name]", "name"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "a\nP.S. b", "a"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a"),
    ("detectable_format:constrained_response", {}, "My answer is no.", "No."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*a*", "a"),
    (
        "detectable_format:multiple_sections",
        {"num_sections": 2, "section_spliter": "Section"},
        "Section 1 a Section 2 b",
        "Section 1 a",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "a"),
    ("detectable_format:title", {}, "<<Sea>>", "<< >>"),
    ("combination:two_responses", {}, "a ****** b", "a ****** a"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hi"}, "say hi: hi", "hi"),
    ("startend:end_checker", {"end_phrase": "The end."}, 'a. The END."', "The end. a"),
    ("punctuation:no_comma", {}, "a b", "a, b"),
    ("startend:quotation", {}, '"a"', "a"),
]


def test_every_check_has_a_case() -> None:
    assert {name for name, *_ in CASES} == set(CHECKS)


@pytest.mark.parametrize(("name", "given", "good", "bad"), CASES)
def test_an_instruction_is_checked(name: str, given: dict[str, Any], good: str, bad: str) -> None:
    assert CHECKS[name](good, given)
    assert not CHECKS[name](bad, given)


@pytest.mark.parametrize(
    ("name", "arguments", "answer", "is_followed"),
    [
        ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a *** *** b", False),
        ("combination:two_responses", {}, "a ****** ****** b", False),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "so"},
            '"So, b',
            True,
        ),
        ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "a\np. p. s. b", True),
        ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "a\nP.S. b", False),
        ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a*", False),
        ("keywords:forbidden_words", {"forbidden_words": ["c++"]}, "a c+ b", True),
    ],
)
def test_an_instruction_is_read_as_the_paper_does(
    name: str, arguments: dict[str, Any], answer: str, *, is_followed: bool
) -> None:
    assert CHECKS[name](answer, arguments) is is_followed


def test_an_empty_answer_follows_nothing() -> None:
    item = Item(1, Task((), metadata={"instructions": [("punctuation:no_comma", {})]}))
    assert [follows_all(item, answer) for answer in ("", " \n", "a")] == [False, False, True]


def test_all_instructions_have_to_be_followed() -> None:
    given: list[Any] = [("punctuation:no_comma", {}), ("startend:quotation", {})]
    item = Item(1, Task((), metadata={"instructions": given}))
    answers = ('"a b"', '"a, b"', "a b", "")
    assert [follows_all(item, answer) for answer in answers] == [True, False, False, False]


def test_a_row_with_another_instruction_is_left_out_by_its_name() -> None:
    row = {"prompt": "a", "instruction_id_list": ["language:response_language"], "kwargs": [{}]}
    assert ifeval_row(row) == "language:response_language is not checked"
