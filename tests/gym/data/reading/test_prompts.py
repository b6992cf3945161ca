"""Rows of prompts that the model answers itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data import Record, read_dataset
from zoo.gym.data.equality import related_rows

ROW = {"prompt": "2+3?", "answer": "5"}


def read(tmp_path: Path, *rows: dict[str, Any]) -> tuple[Record, ...]:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tuple(read_dataset([file], kinds=frozenset({"prompt"})).records)


def test_a_prompt_keeps_its_answer_and_its_other_fields(tmp_path: Path) -> None:
    (record,) = read(tmp_path, {**ROW, "system": "Be brief.", "level": 2})
    assert (record.kind, record.prompt, record.answer) == ("prompt", "2+3?", "5")
    assert [turn.content for turn in record.messages] == ["Be brief."]
    assert record.metadata == {"level": 2}


@pytest.mark.parametrize("answer", [5, 5.5, "5", ["5", "five"], None])
def test_an_answer_is_as_the_file_has_it(tmp_path: Path, answer: object) -> None:
    assert read(tmp_path, {"prompt": "2+3?", "answer": answer})[0].answer == answer


def test_a_prompt_may_be_turns_and_a_completion_is_a_reference(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "2+3?"}]
    completion = [{"role": "assistant", "content": "It is 5."}]
    (record,) = read(tmp_path, {"prompt": turns, "completion": completion})
    assert [turn.role for turn in record.messages] == ["system", "user"]
    assert (record.prompt, record.completion) == ("", "It is 5.")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": " ", "answer": 1}, "'prompt' is empty: expected text"),
        ({"prompt": [], "answer": 1}, "'prompt' is empty: expected turns that end with a user"),
        (
            {"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            "'prompt': expected a user turn at its end, got one of the assistant",
        ),
        ({"prompt": [{"role": "user", "content": " "}]}, "expected text in its last turn"),
        ({"prompt": "a", "answer": {"b": 1}}, "'answer': expected text, a number or a list"),
        ({"prompt": "a", "answer": True}, "'answer': expected text, a number or a list"),
        ({"prompt": 3}, "'prompt': expected text, got a number"),
        ({"prompt": "a", "image": "b.png"}, "image"),
        ({"question": "a", "solution": {"b": 1}}, "'solution': expected text, a number or a list"),
        ({"problem": ""}, "'problem' is empty: expected text"),
        ({"messages": "a", "answer": 1}, "'messages': expected a list of messages"),
        ({"messages": [{"role": "assistant", "content": "b"}]}, "'messages' is empty"),
        ({"text": "a"}, "expected a prompt to answer, 'prompt', and what"),
    ],
)
def test_a_row_without_a_usable_prompt_is_refused(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    with raises("data.no_usable_row") as caught:
        read(tmp_path, row)
    assert reason in caught.value.message


def test_equal_prompts_with_other_answers_are_different_rows(tmp_path: Path) -> None:
    assert related_rows(read(tmp_path, ROW, ROW, {**ROW, "answer": 5})).duplicates == 2
    assert related_rows(read(tmp_path, ROW, {**ROW, "answer": "6"})).duplicates == 0


ASKED, SAID = {"role": "user", "content": "2+3?"}, {"role": "assistant", "content": "It is 5."}


@pytest.mark.parametrize(
    ("row", "prompt", "answer", "reference"),
    [
        ({"question": "2+3?", "answer": "2 and 3\n#### 5"}, "2+3?", "2 and 3\n#### 5", ""),
        ({"problem": "2+3?", "solution": "5"}, "2+3?", "5", ""),
        ({"prompt": "2+3?", "ground_truth": 5}, "2+3?", 5, ""),
        ({"instruction": "Add.", "input": "2, 3", "output": "5"}, "Add.\n\n2, 3", None, "5"),
        ({"prompt": "2+3?", "response": "five"}, "2+3?", None, "five"),
    ],
)
def test_the_usual_names_of_questions_and_answers_are_read(
    tmp_path: Path, row: dict[str, Any], prompt: str, answer: object, reference: str
) -> None:
    (record,) = read(tmp_path, row)
    assert (record.prompt, record.answer, record.completion) == (prompt, answer, reference)


@pytest.mark.parametrize("turns", [[ASKED], [ASKED, SAID]])
def test_a_chat_is_a_prompt_up_to_its_last_user_turn(
    tmp_path: Path, turns: list[dict[str, str]]
) -> None:
    (record,) = read(tmp_path, {"messages": turns, "answer": 5, "system": "s"})
    assert [turn.role for turn in record.messages] == ["system", "user"]
    assert (record.answer, record.completion) == (5, "It is 5." if turns[1:] else "")


def test_other_fields_are_passed_to_the_reward(tmp_path: Path) -> None:
    row = {"prompt": "a", "question": "b", "answer": 1, "solution": "c"}
    assert read(tmp_path, row)[0].metadata == {"question": "b", "solution": "c"}
