"""Every key of a row is obeyed, refused or reported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.gym.data.inspection import inspect_dataset
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.reading.formats import parse_row
from zoo.gym.data.reading.jsonl import Row, read_rows
from zoo.gym.data.records import Dataset, Message
from zoo.gym.data.rows import EncodeOptions
from zoo.gym.errors import InputError

USER, GPT = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
CHAT, PAIR = {"messages": [USER, GPT]}, {"prompt": "Hi", "completion": "Hello"}
SHAREGPT, ALPACA = {"conversations": [USER, GPT]}, {"instruction": "Hi", "output": "Hello"}
SYSTEM_TURN = {"role": "system", "content": "T"}
OTHER_FORMATS = [CHAT, SHAREGPT, PAIR, ALPACA, {"text": "a"}]

Read = Callable[..., Dataset]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def run(*rows: Any) -> Dataset:
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        return read_dataset([path])

    return run


def refusal(row: Any) -> str:
    with pytest.raises(InputError) as caught:
        parse_row(row, "f:1")
    return caught.value.message


@pytest.mark.parametrize("key", ["system", "system_prompt"])
@pytest.mark.parametrize(
    "row",
    [
        *OTHER_FORMATS[:-1],
        {"prompt": [USER], "completion": [GPT]},
        {"prompt": "Hi", "response": "Hello"},
        {"instruction": "Hi", "response": "Hello"},
        {"instruction": "Hi", "instances": [{"output": "Hello"}]},
    ],
)
def test_a_system_key_is_the_first_turn_in_every_format(row: Any, key: str) -> None:
    _, (record,) = parse_row({**row, key: "S"}, "f:1")
    assert record.messages[0] == Message("system", "S")


def test_a_system_key_that_equals_the_system_turn_is_said_once() -> None:
    _, (record,) = parse_row({"messages": [SYSTEM_TURN, USER, GPT], "system": "T"}, "f:1")
    assert [turn.role for turn in record.messages] == ["system", "user", "assistant"]


@pytest.mark.parametrize("row", OTHER_FORMATS)
@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"weight": 0}, "'weight' is 0: the row is excluded"),
        ({"weight": 0.5}, "'weight': expected 0 or 1, got 0.5"),
        ({"sample_weight": 2}, "'sample_weight': expected 0 or 1, got 2"),
        ({"loss_weight": "1"}, "'loss_weight': expected a number, got '1'"),
        ({"train": False}, "the row is excluded"),
        ({"trainable": 0}, "the row is excluded"),
        ({"train": "no"}, "'train': expected true or false, or 1 or 0, got 'no'"),
        ({"weight": 1, "sample_weight": 0}, "expected one weight, got two"),
        ({"weight": float("nan")}, "'weight': expected 0 to"),
        ({"weight": -1}, "'weight': expected 0 to 1,000,000, got -1"),
        ({"chosen": "a", "rejected": "b"}, "preference data, with 'chosen' and 'rejected'"),
    ],
)
def test_a_row_that_is_not_to_be_learned_is_refused(row: Any, keys: Any, reason: str) -> None:
    assert reason in refusal({**row, **keys})


@pytest.mark.parametrize("row", OTHER_FORMATS)
@pytest.mark.parametrize(
    "keys", [{"weight": 1, "train": 1}, {"weight": None, "chosen": None}, {"loss": 0.0}]
)
def test_a_row_of_weight_one_is_learned(row: Any, keys: Any) -> None:
    assert parse_row({**row, **keys}, "f:1") == parse_row(row, "f:1")


@pytest.mark.parametrize("key", ["train", "learn", "trainable", "training", "loss"])
def test_a_turn_marked_as_not_trained_on_is_not_learned(key: str) -> None:
    turns = [USER, {**GPT, key: False}, USER, {**GPT, key: True}]
    _, (record,) = parse_row({"messages": turns}, "f:1")
    assert [turn.learned for turn in record.messages if turn.role == "assistant"] == [False, True]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"messages": [USER, {**GPT, "mask": True}]}, "'mask' is ambiguous: expected 'weight'"),
        ({"messages": [USER, {**GPT, "train": 0}]}, "'train': expected true or false"),
        ({"messages": [USER, {**GPT, "train": False, "weight": 1}]}, "contradictory"),
        ({"messages": [USER, {**GPT, "train": False, "loss": True}]}, "both true and false"),
        ({"messages": [SYSTEM_TURN, USER, GPT], "system": "S"}, "two system prompts"),
        ({**PAIR, "system": "S", "system_prompt": "T"}, "two system prompts"),
        ({**PAIR, "system": 7}, "'system': expected text, got a number"),
        ({**CHAT, **SHAREGPT}, "two formats in one row: expected one, got 'messages' and 'conv"),
        ({**CHAT, "text": "a"}, "two formats in one row: expected one, got 'messages' and 'text'"),
        ({**PAIR, **ALPACA}, "'prompt' with 'completion' and 'instruction' with 'output'"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "preference data, with 'chosen' and"),
        ({"chosen_messages": [USER], "rejected_messages": [USER]}, "need a preference method"),
    ],
)
def test_a_row_that_says_two_things_is_refused_by_name(row: Any, reason: str) -> None:
    assert reason in refusal(row)


def test_null_is_no_second_format() -> None:
    assert parse_row({"messages": None, "text": "a"}, "f:1")[0] == "text"


def test_alpaca_with_the_prompt_as_text_is_alpaca(read: Read) -> None:
    data = read({**ALPACA, "text": "### Instruction: Hi"})
    assert list(data.formats.values()) == ["alpaca"]
    assert "'text' (1 row)" in data.notes[0]


def test_dolly_rows_differ_from_prompt_response_rows(read: Read) -> None:
    dolly = {"instruction": "Add", "context": "1 2", "response": "3", "source": "sums"}
    data = read(dolly, {"prompt": "a", "response": "b"})
    assert list(data.formats.values()) == ["dolly + prompt/response"]
    assert [(r.prompt, r.completion) for r in data.records] == [("Add\n\n1 2", "3"), ("a", "b")]
    assert not data.notes


@pytest.mark.parametrize("row", OTHER_FORMATS[:-1])
@pytest.mark.parametrize("key", ["label", "kto_tag"])
def test_labelled_rows_of_a_file_with_bad_answers_are_refused(
    read: Read, row: Any, key: str
) -> None:
    data = read({**row, key: False}, {**row, key: True}, row)
    assert [problem.reason.split(":")[0] for problem in data.problems] == [
        f"{key!r} is false",
        "it is rated as good, and other rows as bad",
    ]
    assert len(data.records) == 1


def test_an_answer_to_forget_is_not_learned(read: Read) -> None:
    data = read({**PAIR, "forget": True}, PAIR, {**PAIR, "forget": False})
    reasons = [problem.reason.split(":")[0] for problem in data.problems]
    assert reasons == ["'forget' is true", "it is rated as good, and other rows as bad"]
    assert len(data.records) == 1
    assert not data.notes


@pytest.mark.parametrize("row", OTHER_FORMATS)
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("forget", 1, "'forget' is 1: expected one answer to learn"),
        ("forget", 1.0, "'forget' is 1.0: expected one answer to learn"),
        ("forget", True, "'forget' is true: expected one answer to learn"),
        ("kto_tag", 0, "'kto_tag' is 0: expected one answer to learn"),
        ("kto_tag", False, "'kto_tag' is false: expected one answer to learn"),
        ("forget", "yes", "'forget': expected true or false, or 1 or 0, got 'yes'"),
        ("forget", 2, "'forget': expected true or false, or 1 or 0, got 2"),
        ("kto_tag", [], "'kto_tag': expected true or false, or 1 or 0, got a list"),
    ],
)
def test_an_answer_to_forget_is_never_learned(row: Any, key: str, value: Any, reason: str) -> None:
    assert reason in refusal({**row, key: value})


@pytest.mark.parametrize("keys", [{"forget": 0}, {"kto_tag": 1}, {"forget": None}])
def test_an_answer_to_retain_is_learned_without_a_note(read: Read, keys: Any) -> None:
    data = read({**PAIR, **keys})
    assert (len(data.records), data.problems, data.notes) == (1, (), ())


@pytest.mark.parametrize("key", ["label", "kto_tag", "forget"])
@pytest.mark.parametrize("value", [0, 1, 0.0, True, False])
def test_a_rating_that_is_read_is_not_reported_as_unread(
    tmp_path: Path, key: str, value: object
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({**PAIR, key: value}), encoding="utf-8")
    data = read_dataset([path], kinds={"rated"})
    assert [record.good for record in data.records] == [bool(value) is (key != "forget")]
    assert not data.notes


def test_rows_that_are_all_labelled_good_are_learned(read: Read) -> None:
    assert len(read({**PAIR, "label": True}, PAIR).records) == 2


def test_a_class_of_a_text_is_reported_and_its_row_learned(read: Read) -> None:
    data = read({"text": "a", "label": False}, {"text": "b", "label": 1})
    assert (len(data.records), "'label' (2 rows)" in data.notes[0]) == (2, True)


def test_unread_keys_are_named_in_one_line_per_file(read: Read) -> None:
    named = {**USER, "name": "Ann", "weight": 1}
    data = read(
        {**ALPACA, "context": "c", "id": 7, "task_id": "x", "history": []},
        {**ALPACA, "context": "d", "note": None},
        {"messages": [named, GPT], "quality": 0.0},
    )
    (note,) = data.notes
    assert note.partition(": keys that are not read: ")[2].startswith("'context' (2 rows), ")
    assert {"'quality' (1 row)", "'messages[].name' (1 row)"} < set(note.split(": ")[2].split(", "))
    assert "'messages[].weight of a user turn' (1 row)" in note
    assert "id'" not in note


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "list.json", "spread.json", "a.unknown"])
def test_a_key_that_stands_twice_makes_a_bad_row(tmp_path: Path, name: str) -> None:
    good, bad = '{"text": "a"}', '{"text": "b", "text": "c"}'
    text = {
        "list.json": f"[{bad},\n{good}]",
        "spread.json": '{\n"text": "b",\n"text": "c"}',
    }.get(name, f"{bad}\n{good}")
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    first, *rest = read_rows(path)
    assert not isinstance(first, Row)
    assert first.reason == "duplicate key 'text': expected it once"
    assert all(isinstance(row, Row) for row in rest)
    if rest:
        assert [record.text for record in read_dataset([path]).records] == ["a"]


def test_a_file_given_twice_by_any_name_is_reported(tmp_path: Path) -> None:
    path, link = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    path.write_text('{"text": "a"}', encoding="utf-8")
    link.symlink_to(path)
    (note,) = read_dataset([path, path, link]).notes
    assert note == f"{path} and {link}: the same file given 3 times: its rows are learned each time"


def test_inspection_warns_of_keys_that_are_not_read(
    tmp_path: Path, byte_tokenizer: Callable[..., Any]
) -> None:
    byte_tokenizer().save_pretrained(tmp_path / "model")
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({**PAIR, "context": "c"}), encoding="utf-8")
    found = inspect_dataset([path], tmp_path / "model", EncodeOptions(cutoff_len=60))
    assert f"{path}: keys that are not read: 'context' (1 row)" in found.warnings


def test_parts_beside_a_prompt_are_reported_for_rewards(tmp_path: Path) -> None:
    row = {"context": "Ann has 3 cats.", "question": "How many?", "answer": 3, "level": 2}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (note,) = read_dataset([tmp_path / "rows.jsonl"], kinds={"prompt"}).notes
    assert "not part of the prompt and that only rewards can read: 'context' (1 row)" in note
    assert "level" not in note
