"""Parquet files become the same rows as JSON; damage and other schemas are refused."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.backends.machine.installing import install_command
from zoo.gym.data.reading import parquet
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.reading.files import files_in

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CHAT: dict[str, object] = {
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hey"}]
}
PAIR: dict[str, object] = {"prompt": "Say it.", "chosen": "Yes.", "rejected": "No."}


def written(path: Path, rows: Sequence[dict[str, object]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.slow
def test_nan_is_a_missing_value_as_pandas_writes_it(tmp_path: Path) -> None:
    rows = [{"question": "a", "answer": 1.0}, {"question": "b", "answer": math.nan}]
    found = read_dataset([written(tmp_path / "a.parquet", rows)], kinds={"prompt"})
    assert [record.answer for record in found.records] == [1.0, None]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.PARQUET", "rows.bin"])
@pytest.mark.parametrize("row", [CHAT, {"instruction": "Go", "output": "Gone"}])
def test_parquet_gives_the_rows_that_json_gives(
    tmp_path: Path, name: str, row: dict[str, object]
) -> None:
    table = written(tmp_path / name, [row] * 600)
    same = tmp_path / "rows.jsonl"
    same.write_text("".join(json.dumps(row) + "\n" for _ in range(600)))
    of_table, of_json = (read_dataset([path]).records for path in (table, same))
    assert len(of_table) == len(of_json) == 600
    assert of_table[599].source == f"{table}:600"
    assert of_table[599].messages == of_json[599].messages
    assert of_table[599].completion == of_json[599].completion


def test_pairs_are_read_for_a_method_that_compares(tmp_path: Path) -> None:
    found = read_dataset([written(tmp_path / "a.parquet", [PAIR])], kinds={"pair"})
    assert [record.kind for record in found.records] == ["pair"]


def test_a_null_is_a_key_that_the_row_does_not_have(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": "a", "completion": "b", "tools": None, "extra": None},
        {"prompt": "c", "completion": None},
    ]
    found = read_dataset([written(tmp_path / "a.parquet", rows)])
    assert len(found.records) == 1
    assert not [note for note in found.notes if "extra" in note]
    assert str(found.problems[0]).startswith(f"{tmp_path / 'a.parquet'}:2: ")


def test_a_null_in_a_turn_is_a_key_that_the_turn_does_not_have(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hey", "weight": 0},
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": "Hey!"},
    ]
    table = written(tmp_path / "a.parquet", [{"messages": turns}])
    assert pq.read_table(table).to_pylist()[0]["messages"][0]["weight"] is None
    [record] = read_dataset([table]).records
    assert [turn.learned for turn in record.messages if turn.role == "assistant"] == [False, True]


def test_a_file_of_another_schema_is_refused_with_its_first_row(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"when": datetime(2026, 1, 1, tzinfo=UTC), "price": 2.5}]
    path = written(tmp_path / "a.parquet", rows)
    with raises("data.no_usable_row") as raised:
        read_dataset([path])
    assert raised.value.message.startswith(f"{path}:1: ")
    assert "when" in raised.value.message


def test_bytes_are_not_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [{"prompt": b"a", "completion": b"b"}])
    with raises("data.no_usable_row", r"a\.parquet:1: .*expected text"):
        read_dataset([path])


@pytest.mark.parametrize("cut", [8, 200, -4])
def test_a_damaged_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "a.parquet", [CHAT] * 50)
    path.write_bytes(path.read_bytes()[:cut])
    with raises("data.damaged_file", r"a\.parquet: not a complete parquet file: "):
        read_dataset([path])


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [{"prompt": f"question {n}", "completion": f"answer {n * 7}"} for n in range(500)]
    pq.write_table(pa.Table.from_pylist(rows), path, compression="gzip", use_dictionary=False)
    raw = bytearray(path.read_bytes())
    raw[200:300] = bytes(100)
    path.write_bytes(raw)
    with raises("data.damaged_file", r"a\.parquet: not a complete parquet file: "):
        read_dataset([path])


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), path)
    with raises("data.empty_file") as caught:
        read_dataset([path])
    assert caught.value.code == "data.empty_file"


def test_text_named_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_text(json.dumps(PAIR))
    with raises("data.damaged_file") as caught:
        read_dataset([path])
    assert caught.value.code == "data.damaged_file"


def test_a_pointer_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with raises("data.lfs_pointer") as caught:
        read_dataset([path])
    assert caught.value.code == "data.lfs_pointer"


def test_parquet_files_in_a_folder_are_data(tmp_path: Path) -> None:
    path = written(tmp_path / "train-00000.parquet", [CHAT])
    assert files_in([tmp_path]) == [path]


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.parquet", [CHAT])
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    with raises("data.missing_package") as raised:
        read_dataset([path])
    assert raised.value.hint == install_command("parquet")


TWICE = ["role", "content", "content"]


def struct_twice() -> Any:
    return pa.StructArray.from_arrays([pa.array([text]) for text in ("user", "a", "b")], TWICE)


@pytest.mark.parametrize(
    ("columns", "names", "twice"),
    [
        (["a", "b", "c"], ["prompt", "completion", "completion"], "completion"),
        ([struct_twice()], ["messages"], "content"),
        ([pa.ListArray.from_arrays([0, 1], struct_twice())], ["messages"], "content"),
        (
            [
                pa.MapArray.from_arrays(
                    [0, 1], pa.array(["k"]), pa.ListArray.from_arrays([0, 1], struct_twice())
                )
            ],
            ["messages"],
            "content",
        ),
    ],
)
def test_a_column_that_is_there_twice_is_refused(
    tmp_path: Path, columns: list[Any], names: list[str], twice: str
) -> None:
    arrays = [pa.array([one]) if isinstance(one, str) else one for one in columns]
    pq.write_table(pa.Table.from_arrays(arrays, names=names), tmp_path / "rows.parquet")
    with raises("data.duplicate_key", f"duplicate column '{twice}'"):
        read_dataset([tmp_path / "rows.parquet"])
