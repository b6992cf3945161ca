"""Answers to the rows of a file: those of a chat, in the order of the file."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zoo.backends.answerer import Answerer
from zoo.gym.chat import ChatSession, open_chat
from zoo.gym.chat.answer_lines import line_of
from zoo.gym.chat.rows import AHEAD, Question, Reply, questions, replies
from zoo.gym.data import Message
from zoo.models import pico_folder

PROMPTS = ["reverse: cat", "Say hi", "abc", "x", "reverse: table", "1 + 2 ="]


def write(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def asked(*prompts: str) -> list[Question]:
    pairs = enumerate(prompts, 1)
    return [Question(row, (Message("user", prompt),)) for row, prompt in pairs]


def answered(session: ChatSession, questions: list[Question], **options: Any) -> list[Reply]:
    return list(replies(session, questions, session.sampling, **options))


def texts(replies: list[Reply]) -> list[str]:
    return [reply.answered.text if reply.answered else reply.problem for reply in replies]


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_are_those_of_a_chat(
    in_blocks: bool, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_chat(pico_folder(), max_new_tokens=8, temperature=temperature, seed=3) as session:
        expected = session.answers(PROMPTS)
        if in_blocks:
            monkeypatch.setattr(type(session.policy), "batcher", Answerer.batcher)
        assert texts(answered(session, asked(*PROMPTS))) == expected


def test_the_rest_of_a_file_is_drawn_as_in_one_go() -> None:
    with open_chat(pico_folder(), max_new_tokens=8, temperature=1.0) as session:
        whole = texts(answered(session, asked(*PROMPTS)))
        rest = asked(*PROMPTS)[4:]
        assert texts(answered(session, rest, first=4)) == whole[4:]


def test_a_row_that_cannot_be_answered_has_a_problem_in_its_place() -> None:
    too_long = "y" * 600  # zen-pico reads 512 tokens of one byte each
    with open_chat(pico_folder(), max_new_tokens=2) as session:
        problems = [reply.problem for reply in answered(session, asked("a", " ", too_long, "b"))]
    assert [bool(problem) for problem in problems] == [False, True, True, False]
    assert problems[1] == "prompt: expected some text, got none"
    assert problems[2].startswith("prompt: expected fewer than 512 tokens, got 6")


def test_many_rows_without_a_prompt_do_not_end_the_answers() -> None:
    rows = [Question(row, problem="no") for row in range(2 * AHEAD)]
    with open_chat(pico_folder(), max_new_tokens=2) as session:
        assert len(answered(session, [*rows, *asked("a")])) == 2 * AHEAD + 1


def test_a_row_has_its_own_system_prompt_or_that_of_the_session() -> None:
    turns = (Message("system", "Be brief."), Message("user", "a"))
    with open_chat(pico_folder(), max_new_tokens=4, system="Be very long.") as session:
        both = answered(session, [Question(1, turns), *asked("a")])
        plain = session.prompt_ids(turns)
    lengths = [reply.answered.prompt_tokens for reply in both if reply.answered]
    assert lengths == [len(plain), len(plain) + len("very long.") - len("brief.")]


def test_a_chat_is_asked_up_to_its_last_question(tmp_path: Path) -> None:
    roles = ("user", "assistant", "user", "assistant")
    turns = [{"role": role, "content": text} for role, text in zip(roles, "abcd", strict=True)]
    (question,) = questions(write(tmp_path, {"messages": turns}))
    assert [turn.content for turn in question.turns] == ["a", "b", "c"]
    assert question.reference == "d"


@pytest.mark.parametrize(
    ("row", "reference"),
    [
        ({"prompt": "a"}, None),
        ({"prompt": "a", "answer": [1, 2]}, [1, 2]),
        ({"prompt": "a", "completion": "b"}, "b"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "b"),
    ],
    ids=str,
)
def test_the_answer_of_a_row_is_its_reference(
    row: dict[str, Any], reference: object, tmp_path: Path
) -> None:
    (question,) = questions(write(tmp_path, row))
    assert question.reference == reference
    line = line_of(Reply(question, None, "no"))
    assert line.get("reference") == reference
    assert (line["prompt"], line["error"]) == ("a", "no")


def test_a_line_has_the_turns_of_a_conversation() -> None:
    turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    line = line_of(Reply(replace(asked("a")[0], turns=turns), None, "no"))
    assert line["prompt"] == [
        {"role": role, "content": text}
        for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))
    ]
