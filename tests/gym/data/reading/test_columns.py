"""The setting `columns`: any column may be a prompt or an answer, by the published roles."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config.load import dump_config, load_config, load_values
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import Dataset
from zoo.gym.data.reading.columns import Layout, parse_columns
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.records import LEARNED, Kind
from zoo.gym.errors import InputError

TURNS = [{"role": "user", "content": "2+3?"}, {"role": "assistant", "content": "5"}]


def read(path: Path, columns: Mapping[str, str], kinds: frozenset[Kind] = LEARNED) -> Dataset:
    return read_dataset([path], kinds=kinds, layout=Layout(columns))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text("Nr;Anfrage;Ton;Reaktion\n1;2+3?;Be kind.;5\n", encoding="utf-8")
    return path


def rows(folder: Path, *values: Any) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def test_columns_of_a_table_are_prompts_and_answers(table: Path) -> None:
    columns = {"prompt": "Anfrage", "response": "Reaktion", "system": "Ton"}
    data = read(table, columns)
    (record,) = data.records
    assert [turn.content for turn in record.messages] == ["Be kind."]
    assert (record.prompt, record.completion, record.joint) == ("2+3?", "5", "\n\n")
    assert data.notes == (f"{table}: keys that are not read: 'Nr' (1 row)",)


def test_the_published_roles_make_an_instruction_with_its_input(tmp_path: Path) -> None:
    path = rows(tmp_path, {"q": "Add.", "more": "2, 3", "a": "5"})
    (record,) = read(path, {"prompt": "q", "query": "more", "response": "a"}).records
    assert (record.prompt, record.completion) == ("Add.\n\n2, 3", "5")


def test_only_the_columns_that_are_named_are_read(tmp_path: Path) -> None:
    row = {"q": "2+3?", "a": "5", "text": "no", "system": "no", "weight": 0}
    data = read(rows(tmp_path, row), {"prompt": "q", "completion": "a"})
    (record,) = data.records
    assert (record.kind, record.messages, record.joint) == ("completion", (), "")
    assert all(name in data.notes[0] for name in ("'text'", "'system'", "'weight'"))


@pytest.mark.parametrize(
    ("columns", "row", "kind"),
    [
        ({"text": "body"}, {"body": "words"}, "text"),
        ({"messages": "talk"}, {"talk": TURNS}, "chat"),
        ({"prompt": "q", "chosen": "g", "rejected": "b"}, {"q": "a", "g": "b", "b": "c"}, "pair"),
        (
            {"prompt": "q", "chosen": "g", "rejected": "b"},
            {"q": TURNS[:1], "g": TURNS[1:], "b": [{"role": "assistant", "content": "6"}]},
            "pair",
        ),
        ({"prompt": "q", "answer": "a"}, {"q": "2+3?", "a": 5}, "prompt"),
        (
            {"prompt": "q", "response": "a", "label": "ok"},
            {"q": "a", "a": "b", "ok": True},
            "rated",
        ),
    ],
)
def test_every_kind_of_row_has_its_roles(
    tmp_path: Path, columns: Mapping[str, str], row: Any, kind: Kind
) -> None:
    assert read(rows(tmp_path, row), columns, frozenset({kind})).records[0].kind == kind


def test_a_cell_is_read_as_the_role_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Talk\n" + json.dumps(TURNS), encoding="utf-8")
    assert len(read(path, {"messages": "Talk"}).records[0].messages) == 2


@pytest.mark.parametrize("column", ["Anfrag", "Frage"])
def test_a_missing_column_is_refused_with_the_present_ones(table: Path, column: str) -> None:
    with raises("data.missing_column") as caught:
        read(table, {"prompt": column, "response": "Reaktion"})
    assert f"no column {column!r}" in caught.value.message
    assert "'Nr', 'Anfrage', 'Ton', 'Reaktion'" in caught.value.message


def test_a_column_that_some_rows_lack_is_one_of_the_file(tmp_path: Path) -> None:
    path = rows(tmp_path, {"q": "a", "a": "b"}, {"q": "c", "a": "d", "s": "Be kind."})
    data = read(path, {"prompt": "q", "response": "a", "system": "s"})
    assert [len(record.messages) for record in data.records] == [0, 1]


def test_plain_text_has_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    with raises("data.missing_column", "text without columns") as caught:
        read(tmp_path / "a.txt", {"text": "body"})
    assert caught.value.code == "data.missing_column"


def test_bad_rows_are_reported_before_their_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"q": ')
    with raises("data.no_usable_row", "truncated JSON"):
        read(tmp_path / "a.jsonl", {"text": "body"})


def test_the_setting_counts_above_the_columns_of_a_dataset_info(tmp_path: Path) -> None:
    path = rows(tmp_path, {"a": "first", "b": "second"})
    entry = {"file_name": path.name, "columns": {"prompt": "a"}, "num_samples": 1}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"mine": entry}))
    assert read(path, {}).records[0].text == "first"
    assert read(path, {"text": "b"}).records[0].text == "second"


@pytest.mark.parametrize(
    "value",
    ["prompt:Anfrage, response:Reaktion", {"prompt": "Anfrage", "response": "Reaktion"}],
)
def test_the_setting_is_a_text_or_a_mapping(value: object) -> None:
    expected = {"prompt": "Anfrage", "response": "Reaktion"}
    given = load_values({"model": "m", "dataset": "a.csv", "columns": value}).config
    assert given.columns == expected
    assert TrainConfig(model_name_or_path="m", dataset="a.csv", columns=value) == given


def test_columns_are_equal_in_flags_yaml_and_stored_settings(tmp_path: Path) -> None:
    yaml = tmp_path / "a.yaml"
    base = "model: m\ndataset: a.csv\n"
    yaml.write_text(f'{base}columns: {{prompt: "A, b: c", response: 2}}')
    config = load_config([yaml], [], {}).config
    assert config.columns == {"prompt": "A, b: c", "response": "2"}
    yaml.write_text(dump_config(config))
    assert load_config([yaml], [], {}).config == config
    items = ["model=m", "dataset=a.csv", "columns=prompt:A,response:B"]
    assert load_config([], items, {}).config.columns == {"prompt": "A", "response": "B"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("promt:A", "Did you mean 'prompt'"),
        ("colour:A", "expected prompt, query"),
        ("prompt:A,prompt:B", "got 'prompt' twice"),
        ("prompt:A,response:A", "got 'A' twice"),
        ("prompt", "expected the name of a column for prompt"),
        ("", "expected roles with columns"),
        (3, "expected roles with columns"),
        ({"prompt": ["A"]}, "prompt: expected a column, got a list"),
        ({}, "expected roles with columns"),
    ],
)
def test_roles_that_would_have_no_effect_are_refused(value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_columns(value)
