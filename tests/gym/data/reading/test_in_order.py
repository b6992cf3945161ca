"""The rows of a file in their order, with what each asks."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.data.reading.dataset import read_in_order
from zoo.gym.data.records import ANSWERABLE, Problem, Record
from zoo.gym.data.rows import as_chat


def read(tmp_path: Path, *rows: object) -> list[tuple[Record, ...] | Problem]:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read_in_order(file, ANSWERABLE))


def test_a_row_that_cannot_be_used_keeps_its_place(tmp_path: Path) -> None:
    rows = read(tmp_path, {"prompt": "a"}, {"text": "b"}, {"prompt": "c"})
    assert [isinstance(row, Problem) for row in rows] == [False, True, False]
    assert str(rows[1]).endswith("rows.jsonl:2: expected a prompt or a chat, got a row of text")


ALPACA = {"instruction": "Add.", "input": "1 2", "output": "3", "history": [["Hi", "Ho"]]}


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        ({"prompt": "a", "answer": 5}, ["a"]),
        ({"question": "a"}, ["a"]),
        ({"prompt": "a", "completion": "b"}, ["a", "b"]),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, ["a", "b"]),
        ({"messages": [{"role": "user", "content": "a"}]}, ["a"]),
        (ALPACA, ["Hi", "Ho", "Add.\n\n1 2", "3"]),
        ({"instruction": "Add.", "context": "1 2", "response": "3"}, ["Add.\n\n1 2", "3"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_format_with_more_of_the_prompt_counts_first(
    tmp_path: Path, row: dict[str, Any], asked: list[str]
) -> None:
    (records,) = read(tmp_path, row)
    assert not isinstance(records, Problem)
    (record,) = records
    assert [turn.content for turn in as_chat(record)] == asked


def test_a_key_that_is_not_read_is_counted(tmp_path: Path) -> None:
    file, unread = tmp_path / "rows.jsonl", Counter[str]()
    file.write_text('{"prompt": "a", "completion": "b", "colour": "red"}\n')
    list(read_in_order(file, ANSWERABLE, unread))
    assert unread == {"colour": 1}
