"""Tables: csv and tsv become the same rows as JSON, and a shifted table is refused."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.errors import InputError

TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": 'say "yes",\nplease'}]


def written(path: Path, *rows: list[str], separator: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    return path


def as_json(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "separator"), [("a.csv", ","), ("a.tsv", "\t"), ("a.csv", ";"), ("a.CSV", "\t")]
)
def test_a_table_gives_the_rows_that_json_gives(tmp_path: Path, name: str, separator: str) -> None:
    answer = 'two\nlines; "quoted", and more'
    header = ["instruction", "input", "output"]
    table = written(tmp_path / name, header, ["Go", "", answer], separator=separator)
    same = as_json(tmp_path / "a.jsonl", {"instruction": "Go", "input": "", "output": answer})
    (of_table,), (of_json,) = (read_dataset([path]).records for path in (table, same))
    assert of_table.source == f"{table}:2"
    assert (of_table.prompt, of_table.completion) == (of_json.prompt, of_json.completion)


def test_turns_in_a_cell_are_json(tmp_path: Path) -> None:
    cells = [["messages", "system"], [json.dumps(TURNS), "Be kind."]]
    (record,) = read_dataset([written(tmp_path / "a.csv", *cells)]).records
    assert [(turn.role, turn.content) for turn in record.messages] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("assistant", 'say "yes",\nplease'),
    ]


def test_a_bracket_in_a_text_cell_is_text(tmp_path: Path) -> None:
    cells = [["prompt", "completion"], ["[1] cites", "{}"], ["", "an answer"]]
    records = read_dataset([written(tmp_path / "a.csv", *cells)]).records
    assert [record.prompt for record in records] == ["[1] cites", ""]


def test_flags_of_a_table_exclude_rows_as_those_of_json_do(tmp_path: Path) -> None:
    cells = [["prompt", "completion", "weight", "train"]]
    cells += [["a", "b", "1", ""], ["c", "d", "0", ""], ["e", "f", "", "False"]]
    data = read_dataset([written(tmp_path / "a.csv", *cells)])
    assert [record.prompt for record in data.records] == ["a"]
    assert ["'weight' is 0" in str(data.problems[0]), len(data.problems)] == [True, 2]


def test_a_cell_that_is_not_json_is_a_problem_of_its_row(tmp_path: Path) -> None:
    cells = [["messages"], [json.dumps(TURNS)], [str(TURNS)]]
    path = written(tmp_path / "a.csv", *cells)
    (problem,) = read_dataset([path]).problems
    assert str(problem).startswith(f"{path}:3: 'messages': expected JSON in the cell")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prompt,completion\na,b\nc\n", "a.csv:3: expected 2 cells as in the header, got 1"),
        ('prompt,completion\n"a\nb",c\nd,e,f\n', "a.csv:4: expected 2 cells as in the header"),
        ('prompt,completion\na,"b\n', "a.csv:2: not a row of a table: unexpected end of data"),
        ("prompt,prompt\na,b\n", "a.csv:1: duplicate column 'prompt': expected it once"),
        ("prompt,answer,completion\n", "a.csv: empty file: expected rows of data"),
        ("a,b\n", "a.csv: empty file"),
        ("a,b\n1,2\n", "a.csv:2: no known format"),
        ("text\na\0\n", "a.csv: not text: expected json"),
        ("text\n" + "a" * 9000 + "\0\n", "a.csv:2: not text: expected a table, got a zero byte"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_dataset([path])
    assert sentence in caught.value.message


def test_a_table_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text\ncafé\n".encode("latin-1"))
    with raises("data.bad_encoding", r"a\.csv:2: not UTF-8 text: got the byte 0xe9"):
        read_dataset([path])


def test_a_cell_above_the_default_limit_of_csv_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["text"], ["a" * 200_000])
    assert len(read_dataset([path]).records[0].text) == 200_000


def test_a_compressed_table_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"prompt,completion\na,b\n"))
    assert read_dataset([path]).records[0].completion == "b"
