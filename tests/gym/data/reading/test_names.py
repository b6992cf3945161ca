"""Columns of a person's own table: names in any case and a few languages, never a guess."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.data import Record
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.records import LEARNED, Kind


def read(
    folder: Path, row: Mapping[str, object], kinds: frozenset[Kind] = LEARNED
) -> tuple[Record, tuple[str, ...]]:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    data = read_dataset([path], kinds=kinds)
    (record,) = data.records
    return record, data.notes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "question,answer\n2+3?,5\n"),
        ("a.csv", "\ufeffQuestion,Answer\n2+3?,5\n"),
        ("a.csv", "Frage;Antwort\n2+3?;5\n"),
        ("a.tsv", "PREGUNTA\tRespuesta\n2+3?\t5\n"),
        ("a.json", '[{"Question": "2+3?", "R\u00e9ponse": "5"}]'),
        ("a.jsonl", '{"Problem": "2+3?", "Solution": "5"}'),
        ("a.jsonl", '{"input": "2+3?", "output": "5", "ID": 7, "Source": "sums"}'),
    ],
)
def test_a_column_of_questions_and_one_of_answers_are_pairs(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    data = read_dataset([tmp_path / name])
    (record,) = data.records
    assert (record.kind, record.prompt, record.completion) == ("completion", "2+3?", "5")
    assert (data.formats, data.notes) == ({str(tmp_path / name): "question/answer"}, ())


def test_a_blank_line_parts_question_and_answer_without_template(tmp_path: Path) -> None:
    assert read(tmp_path, {"question": "2+3?", "answer": "5"})[0].joint == "\n\n"


def test_columns_beside_a_question_are_read_or_reported_by_name(tmp_path: Path) -> None:
    row = {"System": "Be kind.", "question": "2+3?", "response": "5", "Level": 1}
    record, notes = read(tmp_path, row)
    assert [turn.content for turn in record.messages] == ["Be kind."]
    assert notes == (f"{tmp_path / 'rows.jsonl'}: keys that are not read: 'Level' (1 row)",)


@pytest.mark.parametrize(
    "row",
    [
        {"Instruction": "Add.", "Input": "2, 3", "Output": "5"},
        {"MESSAGES": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"Text": "words"},
    ],
)
def test_the_names_of_a_format_count_in_any_case(tmp_path: Path, row: Mapping[str, object]) -> None:
    lower = read(tmp_path, {key.lower(): value for key, value in row.items()})
    assert read(tmp_path, row) == lower


def test_pairs_and_prompts_have_names_in_any_case(tmp_path: Path) -> None:
    pair = {"Prompt": "2+3?", "Chosen": "5", "Rejected": "6"}
    assert read(tmp_path, pair, frozenset({"pair"}))[0].kind == "pair"
    prompt = {"Frage": "2+3?", "Antwort": "5"}
    assert read(tmp_path, prompt, frozenset({"prompt"}))[0].answer == "5"


def test_a_row_in_a_format_keeps_its_other_keys_for_a_reward(tmp_path: Path) -> None:
    row = {"prompt": "2+3?", "completion": "5", "Level": 1, "Answer": "five"}
    record, _ = read(tmp_path, row, frozenset({"prompt"}))
    assert record.metadata == {"Level": 1, "Answer": "five"}


@pytest.mark.parametrize(
    "row",
    [
        {"question": "a", "answer": "b", "solution": "c"},
        {"question": "a", "query": "b", "answer": "c"},
        {"context": "a", "question": "b", "answer": "c"},
        {"instruction": "a", "input": "b", "answer": "c"},
        {"question": "a", "Question": "b", "answer": "c"},
        {"question": "a", "frage": "b", "answer": "c", "antwort": "d"},
    ],
)
def test_ambiguous_columns_are_refused_by_name(tmp_path: Path, row: Mapping[str, object]) -> None:
    with raises("data.no_usable_row") as caught:
        read(tmp_path, row)
    assert sum(repr(key) in caught.value.message for key in row) > 1


@pytest.mark.parametrize("row", [{"instructions": "a", "input": "b", "output": "c"}, {"a": "b"}])
def test_columns_that_mean_something_else_are_refused(
    tmp_path: Path, row: Mapping[str, object]
) -> None:
    with raises("data.no_usable_row", "no known format"):
        read(tmp_path, row)


@pytest.mark.parametrize(
    "header", ["Question,A,B,C,D,Answer", "Passage,Question,Answer", "Problem,Options,Solution"]
)
def test_a_table_with_parts_of_a_prompt_is_refused(tmp_path: Path, header: str) -> None:
    file = tmp_path / "quiz.csv"
    file.write_text(f"{header}\n{','.join('x' * (header.count(',') + 1))}\n")
    with raises("data.no_usable_row", "columns="):
        read_dataset([file])
