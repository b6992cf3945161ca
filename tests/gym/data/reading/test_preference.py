"""Preference rows of every published form become pairs; what is no pair is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.data import EncodeOptions, Record, encode_records, load_tokenizer, read_dataset
from zoo.gym.data.reading.preference import parse_pair
from zoo.gym.data.record_file import packed, unpacked
from zoo.gym.data.records import Kind
from zoo.gym.data.rows import as_chat
from zoo.gym.data.units import weight_of
from zoo.gym.errors import InputError
from zoo.models import resolve

PAIRS: frozenset[Kind] = frozenset({"pair"})
ASKED, GOOD, BAD = (
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": "4"},
    {"role": "assistant", "content": "5"},
)
SHAREGPT = {
    "conversations": [{"from": "human", "value": "2 + 2?"}],
    "chosen": {"from": "gpt", "value": "4"},
    "rejected": {"from": "gpt", "value": "5"},
}
FORMS: dict[str, dict[str, Any]] = {
    "texts": {"prompt": "2 + 2?", "chosen": "4", "rejected": "5"},
    "turns behind a prompt": {"prompt": [ASKED], "chosen": [GOOD], "rejected": [BAD]},
    "whole chats": {"chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]},
    "whole chats and the prompt": {
        "prompt": "2 + 2?",
        "chosen": [ASKED, GOOD],
        "rejected": [ASKED, BAD],
    },
    "a text and a turn each": {"prompt": "2 + 2?", "chosen": [GOOD], "rejected": [BAD]},
    "openai": {
        "input": {"messages": [ASKED]},
        "preferred_output": [GOOD],
        "non_preferred_output": [BAD],
    },
    "other names": {"chosen_messages": [ASKED, GOOD], "rejected_messages": [ASKED, BAD]},
    "a question": {"question": "2 + 2?", "chosen": "4", "rejected": "5"},
    "a problem and a turn each": {"problem": "2 + 2?", "chosen": GOOD, "rejected": BAD},
    "an instruction": {"instruction": "2 + 2?", "chosen": "4", "rejected": "5"},
    "ShareGPT": SHAREGPT,
    "messages": {"messages": [ASKED], "chosen": GOOD, "rejected": BAD},
}

Read = Callable[..., tuple[Record, ...]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reader(*rows: dict[str, Any], kinds: Any = PAIRS) -> tuple[Record, ...]:
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tuple(read_dataset([file], kinds=kinds).records)

    return reader


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_a_pair_of_chats_with_one_prompt(form: str, read: Read) -> None:
    (record,) = read(FORMS[form])
    better, worse = map(as_chat, record.sides)
    assert record.kind == "pair"
    assert [turn.content for turn in better] == ["2 + 2?", "4"]
    assert [turn.content for turn in worse] == ["2 + 2?", "5"]


def test_a_question_beside_a_prompt_is_reported_as_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [FORMS["texts"], FORMS["whole chats"], FORMS["a question"]]
    path.write_text("".join(json.dumps({**row, "question": "Why?"}) + "\n" for row in rows))
    found = read_dataset([path], kinds=PAIRS)
    assert [as_chat(record.sides[0])[0].content for record in found.records] == [
        "2 + 2?",
        "2 + 2?",
        "Why?",
    ]
    assert found.notes == (f"{path}: keys that are not read: 'question' (2 rows)",)


@pytest.mark.parametrize("form", FORMS)
def test_only_the_answers_are_learned(form: str, read: Read) -> None:
    tokenizer = load_tokenizer(resolve("zen-pico").folder)
    (unit,) = encode_records(read(FORMS[form]), tokenizer, EncodeOptions(256)).units
    learned = [tokenizer.decode(side.ids[side.mask].tolist()) for side in unit.rows]
    assert ["4" in learned[0], "5" in learned[1]] == [True, True]
    assert not any("2 + 2" in text for text in learned)


def test_an_earlier_answer_in_the_prompt_is_not_learned(read: Read) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}, ASKED]
    (record,) = read({"prompt": turns, "chosen": [GOOD], "rejected": [BAD]})
    learned = [turn.content for turn in record.sides[0].messages if turn.learned]
    assert learned == ["4"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "a", "chosen": "b"}, "expected 'chosen' and 'rejected', got no 'rejected'"),
        ({"prompt": "a", "chosen": "b", "rejected": "b"}, "are the same"),
        ({"chosen": "b", "rejected": "c"}, "no prompt"),
        ({"prompt": "a", "chosen": "b", "rejected": [BAD]}, "two of one kind, got text and a list"),
        ({"chosen": [ASKED, GOOD], "rejected": [BAD]}, "no prompt"),
        ({"prompt": "x", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}, "got 'x'"),
        ({"prompt": "a", "messages": [ASKED], "chosen": "b", "rejected": "c"}, "two prompts"),
        (
            {"prompt": "a", "chosen": "b", "rejected": "c", "chosen_messages": [GOOD]},
            "two pairs of answers",
        ),
        ({"chosen": [ASKED, GOOD], "rejected": [ASKED]}, "'rejected'"),
        ({"prompt": "a", "chosen": 1, "rejected": 2}, "expected text or turns, got a number"),
    ],
)
def test_a_row_that_is_no_pair_is_refused_by_name(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_pair(row, "f:1")
    assert reason in refused.value.message


def test_a_row_to_learn_is_no_pair(read: Read) -> None:
    with raises("data.no_usable_row", "expected two answers to compare, 'chosen' and"):
        read({"prompt": "a", "completion": "b"})


def test_a_pair_is_not_learned_as_an_instruction(read: Read) -> None:
    row = {"instruction": "a", "output": "b", "chosen": "b", "rejected": "c"}
    assert read(row)[0].kind == "pair"
    with raises("data.no_usable_row", "need a preference method"):
        read(row, kinds=frozenset({"chat", "completion", "text"}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"), [("instruction-data-with-preference.json", 1100), ("v1_dpo_demo.jsonl", 10)]
)
def test_every_row_of_real_preference_files_is_a_pair(
    shared: Callable[[str], Path], name: str, rows: int
) -> None:
    data = read_dataset([shared(f"data/preference/{name}")], kinds=PAIRS)
    assert len(data.records) + len(data.problems) == rows
    assert {record.kind for record in data.records} == {"pair"}
    assert all("the same" in problem.reason for problem in data.problems)


def test_the_rated_rows_of_the_page_are_read(tmp_path: Path) -> None:
    page = Path(__file__).parents[4] / "docs" / "reference" / "data.md"
    lines = page.read_text(encoding="utf-8").partition("## Rated answers")[2].splitlines()
    rows = [line for line in lines if line[:1] == "{"]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    found = read_dataset([path], kinds={"rated"})
    assert (found.problems, found.notes) == ((), ())
    assert [record.good for record in found.records] == [True, False, False]
    keys = ("label", "kto_tag", "forget")
    assert [next(key for key in keys if f'"{key}"' in row) for row in rows] == list(keys)


ROWS: list[tuple[Kind, dict[str, Any]]] = [
    ("pair", FORMS["texts"]),
    ("rated", FORMS["texts"]),
    ("rated", {"prompt": "2 + 2?", "completion": "4", "label": True}),
    ("prompt", {"prompt": "2 + 2?", "answer": "4"}),
]


def encoded(
    file: Path, kind: Kind, rows: list[dict[str, Any]]
) -> tuple[dict[int, set[float]], list[int]]:
    """Returns the weights of the rows of each usable line, and the lines that are left out."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    data = read_dataset([file], kinds={kind})
    tokenizer = load_tokenizer(resolve("zen-pico").folder)
    found = encode_records(data.records, tokenizer, EncodeOptions(64))
    weights: dict[int, set[float]] = {}
    for row in found.examples:
        weights.setdefault(int(row.source.rpartition(":")[2]), set()).add(weight_of(row))
    problems = (*data.problems, *found.problems)
    return weights, [int(problem.where.rpartition(":")[2]) for problem in problems]


@pytest.mark.parametrize(
    "flags",
    [
        {"train": False},
        {"train": 0},
        {"train": "false"},
        {"weight": 0},
        {"weight": -1},
        {"sample_weight": True},
        {"loss_weight": "1"},
        {"weight": 2, "sample_weight": 3},
    ],
)
@pytest.mark.parametrize(("kind", "row"), ROWS)
def test_excluded_and_badly_weighted_rows_are_counted(
    tmp_path: Path, kind: Kind, row: dict[str, Any], flags: dict[str, Any]
) -> None:
    weights, left_out = encoded(tmp_path / "rows.jsonl", kind, [row, {**row, **flags}])
    assert (weights, left_out) == ({1: {1.0}}, [2])


@pytest.mark.parametrize("key", ["weight", "sample_weight", "loss_weight"])
@pytest.mark.parametrize(("kind", "row"), ROWS)
def test_the_weight_of_a_row_is_that_of_all_its_answers(
    tmp_path: Path, kind: Kind, row: dict[str, Any], key: str
) -> None:
    rows = [{**row, key: 2.5}, {**row, key: 1, "train": True}]
    assert encoded(tmp_path / "rows.jsonl", kind, rows) == ({1: {2.5}, 2: {1.0}}, [])


def test_flags_in_a_table_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("prompt,chosen,rejected,sample_weight,train\na,b,c,2,1\na,b,c,,0\n")
    found = read_dataset([file], kinds=PAIRS)
    assert [record.weight for record in found.records] == [2.0]
    assert [problem.where for problem in found.problems] == [f"{file}:3"]


def test_a_weight_is_kept_in_the_file_of_many_rows() -> None:
    record = parse_pair({**FORMS["texts"], "weight": 0.5}, "f:1")
    assert unpacked(packed(record)) == record
    assert record.weight == 0.5
