"""`dataset_info.json` of LLaMA-Factory works as it is: names, columns, roles, numbers of rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config.train import TrainConfig
from zoo.gym.data import Record
from zoo.gym.data.reading.dataset import fingerprint, read_dataset
from zoo.gym.data.records import LEARNED
from zoo.gym.errors import InputError
from zoo.gym.train.run_folder.pinned import dataset_files

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes rows to mine.json, and an entry for it under the name `mine`."""

    def write(entry: dict[str, Any], *rows: dict[str, Any]) -> Path:
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(rows))
        info = {"mine": {"file_name": "mine.json", **entry}}
        (tmp_path / "dataset_info.json").write_text(json.dumps(info))
        return path

    return write


def only(path: Path, **options: Any) -> Record:
    (record,) = read_dataset([path], **options).records
    return record


def turns(record: Record) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in record.messages]


def test_columns_of_alpaca_are_renamed_and_others_listed(write: Write) -> None:
    columns = {"prompt": "q", "query": "more", "response": "a", "system": "s", "history": "h"}
    row = {"q": "Add.", "more": "2, 3", "a": "5", "s": "Be kind.", "h": [["x", "y"]], "level": 1}
    path = write({"columns": columns}, row)
    record = only(path)
    assert (record.prompt, record.completion) == ("Add.\n\n2, 3", "5")
    assert turns(record) == [("system", "Be kind."), ("user", "x"), ("assistant", "y")]
    assert read_dataset([path]).notes == (f"{path}: keys that are not read: 'level' (1 row)",)


def test_tags_name_the_roles_and_keys_of_turns(write: Write) -> None:
    tags = {"role_tag": "who", "content_tag": "says", "user_tag": "me", "assistant_tag": "it"}
    entry = {"formatting": "sharegpt", "columns": {"messages": "talk"}, "tags": tags}
    talk = [{"who": "system", "says": "s"}, {"who": "me", "says": "a"}, {"who": "it", "says": "b"}]
    record = only(write(entry, {"talk": talk}))
    assert turns(record) == [("system", "s"), ("user", "a"), ("assistant", "b")]


def test_a_role_that_no_tag_names_is_a_problem_of_its_row(write: Write) -> None:
    entry = {"formatting": "sharegpt", "columns": {"messages": "m"}, "tags": {"user_tag": "me"}}
    path = write(entry, {"m": [{"from": "human", "value": "a"}]})
    with raises("data.no_usable_row", "unknown role 'human': expected one of me, gpt"):
        read_dataset([path])


def test_turns_in_nested_lists_are_a_problem_of_their_row(write: Write) -> None:
    tags = {"user_tag": "me", "assistant_tag": "it"}
    entry = {"formatting": "sharegpt", "columns": {"messages": "m"}, "tags": tags}
    deep: list[Any] = []
    for _ in range(899):
        deep = [deep]
    good = [{"from": "me", "value": "a"}, {"from": "it", "value": "b"}]
    data = read_dataset([write(entry, {"m": deep}, {"m": [good]}, {"m": good})])
    assert [turns(record) for record in data.records] == [[("user", "a"), ("assistant", "b")]]
    assert [problem.reason for problem in data.problems] == [
        "messages[0]: expected a message, got a list"
    ] * 2


def test_the_first_bad_role_of_a_row_is_named_in_the_order_of_its_keys(write: Write) -> None:
    tags = {"user_tag": "me"}
    columns = {"messages": "m", "chosen": "c", "rejected": "r"}
    entry = {"formatting": "sharegpt", "ranking": True, "columns": columns, "tags": tags}
    bad = {key: {"from": f"role of {key}", "value": "a"} for key in ("r", "c", "m")}
    with raises("data.no_usable_row", "unknown role 'role of m'"):
        read_dataset([write(entry, bad)], kinds=frozenset({"pair"}))


def test_ranked_rows_are_pairs(write: Write) -> None:
    entry = {
        "formatting": "sharegpt",
        "ranking": True,
        "columns": {"messages": "c", "chosen": "good", "rejected": "bad"},
        "tags": {"assistant_tag": "bot"},
    }
    row = {
        "c": [{"from": "human", "value": "2+3?"}],
        "good": {"from": "bot", "value": "5"},
        "bad": {"from": "bot", "value": "6"},
    }
    record = only(write(entry, row), kinds=frozenset({"pair"}))
    assert [turns(side)[-1] for side in record.sides] == [("assistant", "5"), ("assistant", "6")]
    with raises("data.no_usable_row", "preference"):
        read_dataset([write(entry, row)], kinds=LEARNED)


def test_a_lone_prompt_column_is_text(write: Write) -> None:
    record = only(write({"columns": {"prompt": "body"}}, {"body": "words"}))
    assert (record.kind, record.text) == ("text", "words")


def test_num_samples_takes_the_first_rows_and_says_so(write: Write) -> None:
    rows = [{"instruction": f"{n}", "output": "b"} for n in range(5)]
    path = write({"num_samples": 2}, *rows)
    assert [record.prompt for record in read_dataset([path]).records] == ["0", "1"]
    assert read_dataset([path]).notes == (f"{path}: the first 2 of 5 rows are used (num_samples)",)
    assert len(read_dataset([path], 1).records) == 1


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"hf_hub_url": "a/b"}, "expected 'file_name', got 'hf_hub_url'"),
        ({"script_url": "a"}, "expected 'file_name', got 'script_url'"),
        ({"subset": "x"}, "subset: no such key"),
        ({"split": "test"}, "'split': expected 'train'"),
        ({"formating": "alpaca"}, "formating: no such key. Did you mean 'formatting'?"),
        ({"formatting": "chatml"}, "'formatting': expected alpaca, sharegpt or openai"),
        ({"columns": {"promt": "a"}}, "'columns': promt: no such key. Did you mean 'prompt'?"),
        ({"columns": {"prompt": 1}}, "'columns': prompt: expected text, got a number"),
        ({"tags": {"user_tag": "me"}}, "'tags' has no effect with formatting alpaca"),
        ({"num_samples": 0}, "'num_samples': expected a number of rows, got 0"),
        ({"ranking": "yes"}, "'ranking': expected true or false, got text"),
        ({"ranking": True, "columns": {"prompt": "a"}}, "expected the columns chosen and"),
        ({"columns": {"prompt": "a", "chosen": "b"}}, "the column chosen: expected 'ranking' true"),
        ({"file_name": 3}, "expected 'file_name', got a number"),
    ],
)
def test_an_entry_that_would_not_do_what_it_says_is_refused(
    write: Write, tmp_path: Path, entry: dict[str, Any], reason: str
) -> None:
    write(entry, {"instruction": "a", "output": "b"})
    settings = TrainConfig(model_name_or_path="m", dataset=("mine",), dataset_dir=str(tmp_path))
    with pytest.raises(InputError) as caught:
        dataset_files(settings)
    assert f"{tmp_path / 'dataset_info.json'}: 'mine': " in caught.value.message
    assert reason in caught.value.message


def test_a_name_stands_for_its_file(write: Write, tmp_path: Path) -> None:
    path = write({}, {"instruction": "a", "output": "b"})
    settings = TrainConfig(model_name_or_path="m", dataset=("mine",), dataset_dir=str(tmp_path))
    assert dataset_files(settings).train == (path,)


def test_an_unknown_name_is_refused_with_the_nearest(write: Write, tmp_path: Path) -> None:
    write({}, {"instruction": "a", "output": "b"})
    settings = TrainConfig(model_name_or_path="m", dataset=("mime",), dataset_dir=str(tmp_path))
    with raises("data.unknown_data_set", r"no such entry in .* Did you mean 'mine'"):
        dataset_files(settings)


def test_names_are_looked_up_in_the_folder_data(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({}, {"instruction": "a", "output": "b"})
    tmp_path.rename(tmp_path.with_name("data"))
    monkeypatch.chdir(tmp_path.parent)
    settings = TrainConfig(model_name_or_path="m", dataset=("mine",))
    assert dataset_files(settings).train == (Path("data/mine.json"),)


def test_rows_given_in_python_have_no_name_to_look_up(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({}, {"instruction": "a", "output": "b"})
    monkeypatch.chdir(tmp_path)
    rows: Any = [{"prompt": "a", "completion": "b"}]
    assert len(dataset_files(TrainConfig(model_name_or_path="m", dataset=rows)).train) == 1


def test_two_descriptions_of_one_file_are_refused(write: Write, tmp_path: Path) -> None:
    path = write({}, {"q": "a", "output": "b"})
    info = {"a": {"file_name": "mine.json"}, "b": {"file_name": "mine.json", "num_samples": 3}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    with raises(
        "data.two_entries", r"mine.json: expected one description of the file, got 'a' and 'b'"
    ):
        read_dataset([path])


def test_an_entry_that_changes_rows_changes_their_fingerprint(write: Write) -> None:
    row = {"instruction": "a", "output": "b"}
    plain = fingerprint([write({}, row)])
    limited = fingerprint([write({"num_samples": 1}, row)])
    renamed = fingerprint(
        [write({"columns": {"prompt": "instruction", "response": "output"}}, row)]
    )
    assert len({plain, limited, renamed}) == 3


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', "[" * 9999])
def test_a_damaged_description_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "dataset_info.json").write_text(text)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}')
    with pytest.raises(InputError, match=r"dataset_info\.json"):
        read_dataset([tmp_path / "a.jsonl"])


def test_a_description_by_the_library_datasets_changes_nothing(tmp_path: Path) -> None:
    info = {"builder_name": "json", "features": {"text": {}}, "splits": {"train": {}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    (tmp_path / "a.jsonl").write_text('{"text": "a"}')
    assert only(tmp_path / "a.jsonl").text == "a"


DRAFTS = [{"draft": f"no {n}", "final": f"yes {n}", "q": "?"} for n in range(20)]
FINALS = {"columns": {"prompt": "q", "response": "final"}, "num_samples": 3}


def named(info: Path, file: Path, file_name: str) -> None:
    """Writes rows to a file, and an entry that names it."""
    for place in (info, file):
        place.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in DRAFTS))
    info.write_text(json.dumps({"mine": {"file_name": file_name, **FINALS}}))


@pytest.mark.parametrize(
    ("info", "file", "file_name"),
    [
        ("data", "data/a/b/c/mine.jsonl", "a/b/c/mine.jsonl"),
        ("data", "data/a/mine.jsonl", "a/../a/mine.jsonl"),
        ("data", "raw/mine.jsonl", "../raw/mine.jsonl"),
    ],
    ids=["far below", "there and back", "beside"],
)
def test_an_entry_goes_with_its_name(tmp_path: Path, info: str, file: str, file_name: str) -> None:
    named(tmp_path / info / "dataset_info.json", tmp_path / file, file_name)
    config = TrainConfig(
        model_name_or_path="x", dataset=("mine",), dataset_dir=str(tmp_path / info)
    )
    path = dataset_files(config).train[0].absolute()  # as a run stores it
    assert [row.completion for row in read_dataset([path]).records] == ["yes 0", "yes 1", "yes 2"]


def test_an_entry_goes_with_the_name_of_a_link(tmp_path: Path) -> None:
    named(tmp_path / "data/dataset_info.json", tmp_path / "data/store/1.jsonl", "mine.jsonl")
    (tmp_path / "data/mine.jsonl").symlink_to(tmp_path / "data/store/1.jsonl")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "data")
    config = TrainConfig(
        model_name_or_path="x", dataset=("mine",), dataset_dir=str(tmp_path / "elsewhere")
    )
    (path,) = dataset_files(config).train
    assert len(read_dataset([path]).records) == 3
    assert len(read_dataset([path.resolve()]).records) == 3


def test_an_entry_that_a_run_would_not_find_again_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "raw/mine.jsonl"
    named(tmp_path / "data/dataset_info.json", file, str(file))
    config = TrainConfig(
        model_name_or_path="x", dataset=("mine",), dataset_dir=str(tmp_path / "data")
    )
    with raises("data.far_file") as caught:
        dataset_files(config)
    assert caught.value.code == "data.far_file"


def test_a_far_file_that_is_no_description_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a/b/c/rows.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"prompt": "a", "completion": "b"}\n')
    (tmp_path / "dataset_info.json").write_text("[1]")
    assert only(file).completion == "b"


def test_an_entry_from_far_above_is_named(tmp_path: Path) -> None:
    named(tmp_path / "dataset_info.json", tmp_path / "a/b/c/mine.jsonl", "a/b/c/mine.jsonl")
    notes = read_dataset([tmp_path / "a/b/c/mine.jsonl"]).notes
    assert any("dataset_info.json: 'mine'" in note for note in notes)


def test_an_entry_with_a_name_that_is_no_path_is_of_no_file(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    (tmp_path / "dataset_info.json").write_text('{"x": {"file_name": "a\\u0000b"}}')
    assert only(tmp_path / "rows.jsonl").completion == "b"
