"""Rows with a pair and, once more, its better answer as a chat: each method reads its own kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.records import LEARNED, Dataset, Kind

ASK = {"content": "2+3?", "role": "user"}
GOOD, BAD = ({"content": text, "role": "assistant"} for text in ("5", "6"))
ROW: dict[str, Any] = {
    "prompt": "2+3?",
    "prompt_id": "f0e37e9f",
    "chosen": [ASK, GOOD],
    "rejected": [ASK, BAD],
    "messages": [ASK, GOOD],
    "score_chosen": 8.5,
    "score_rejected": 6.0,
}
"""A row of HuggingFaceH4/ultrafeedback_binarized."""


def read(folder: Path, row: dict[str, Any], kinds: frozenset[Kind]) -> Dataset:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    return read_dataset([path], kinds=kinds)


@pytest.mark.parametrize(
    "row", [ROW, {**ROW, "chosen": [GOOD], "rejected": [BAD]}, {**ROW, "chosen": "5"}]
)
def test_the_chat_is_learned_once_and_the_worse_answer_reported(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    data = read(tmp_path, row, LEARNED)
    (record,) = data.records
    assert [turn.content for turn in record.messages] == ["2+3?", "5"]
    reported = {key for key in row if f"{key!r} (1 row)" in data.notes[0]}
    assert reported == {"rejected", "score_chosen", "score_rejected"}


@pytest.mark.parametrize("row", [ROW, {**ROW, "chosen": [GOOD], "rejected": [BAD]}])
def test_a_method_that_compares_reads_the_pair_once(tmp_path: Path, row: dict[str, Any]) -> None:
    (record,) = read(tmp_path, row, frozenset({"pair"})).records
    texts = [[turn.content for turn in side.messages] for side in record.sides]
    assert texts == [["2+3?", "5"], ["2+3?", "6"]]


def test_answers_are_rated_once(tmp_path: Path) -> None:
    records = read(tmp_path, ROW, frozenset({"rated"})).records
    assert [record.good for record in records] == [True, False]


@pytest.mark.parametrize("messages", [[ASK], [ASK, BAD], [ASK, GOOD, ASK, GOOD]])
def test_a_chat_that_is_not_the_better_answer_is_refused(tmp_path: Path, messages: Any) -> None:
    with raises("data.no_usable_row", "preference data"):
        read(tmp_path, {**ROW, "messages": messages}, LEARNED)
    with raises("data.no_usable_row", "two prompts"):
        read(tmp_path, {**ROW, "messages": messages}, frozenset({"pair"}))
