"""Compressed files are read as what is in them; damaged ones are refused with the place."""

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data.reading.dataset import read_dataset
from zoo.gym.data.reading.files import data_files, files_in
from zoo.gym.errors import InputError

ROWS = [{"prompt": f"{n} {random.Random(n).random()}", "completion": "b"} for n in range(2000)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl.gz", LINES),
        ("a.json.gz", json.dumps(ROWS).encode()),
        ("a.gz", LINES),
        ("a.jsonl", LINES),
        ("a", json.dumps(ROWS, indent=1).encode()),
    ],
)
def test_a_compressed_file_gives_the_rows_in_it(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content))
    assert [record.prompt for record in read_dataset([path]).records] == [
        row["prompt"] for row in ROWS
    ]


def test_a_compressed_text_is_read_as_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\n\ntwo\n"))
    assert [record.text for record in read_dataset([path]).records] == ["one", "two"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "place"),
    [
        (gzip.compress(LINES)[:-30], "incomplete gzip file"),
        (gzip.compress(LINES)[:-6], "incomplete gzip file"),
        (gzip.compress(LINES)[:-8] + bytes(8), "damaged gzip file: CRC check failed"),
        (gzip.compress(LINES) + b"more", "damaged gzip file: not a gzipped file"),
    ],
)
def test_a_damaged_file_is_refused_with_its_row(tmp_path: Path, content: bytes, place: str) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(content)
    with raises("data.damaged_file") as caught:
        read_dataset([path])
    where, _, reason = caught.value.message.partition(": ")
    assert where.startswith(f"{path}:")
    assert 1000 < int(where.rpartition(":")[2]) <= 2001
    assert reason.lower().startswith(place.lower())


@given(st.binary(max_size=64), st.integers(0, 60))
def test_damage_never_ends_in_another_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    content = gzip.compress(b'{"prompt": "a", "completion": "b"}\n' * 3)
    path = tmp_path_factory.mktemp("gz") / "a.jsonl.gz"
    path.write_bytes(content[:at] + noise + content[at + len(noise) :])
    try:
        assert len(read_dataset([path]).records) <= 3
    except InputError as error:
        damage = error
    else:
        return
    assert str(path) in damage.message


def test_a_folder_stands_for_the_data_files_in_it(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.csv", "deep/c.json.gz", "README.md", ".hidden.jsonl", "x.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text\na\n")
    names = ["a.csv", "b.jsonl", "deep/c.json.gz"]
    assert files_in([tmp_path]) == [tmp_path / name for name in names]


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("test.jsonl", "test"),
        ("data/test-00000-of-00001.jsonl", "test"),
        ("my_test.jsonl", "test"),
        ("test/validation.jsonl", "test"),
        ("validation-00000-of-00001.json", "validation"),
        ("dev.csv", "validation"),
        ("en/validation.jsonl", "validation"),
        ("evaluation.jsonl", "validation"),
    ],
)
def test_the_names_of_a_folder_say_what_is_not_learned(tmp_path: Path, name: str, use: str) -> None:
    for file in ("train.jsonl", name):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("text\na\n")
    found = data_files([tmp_path])
    assert found.train == (tmp_path / "train.jsonl",)
    assert getattr(found, use) == (tmp_path / name,)
    assert len(found.validation + found.test) == 1
    with raises("data.mixed_purposes", name):  # to measure on, both cannot be meant
        files_in([tmp_path])
    assert data_files([tmp_path / name]).train == (tmp_path / name,)


def test_a_folder_with_nothing_to_learn_from_is_refused(tmp_path: Path) -> None:
    for file in ("test.jsonl", "validation.jsonl"):
        (tmp_path / file).write_text("text\na\n")
    with raises("data.no_training_files", r"got only .*validation\.jsonl, .*test\.jsonl") as only:
        data_files([tmp_path])
    assert only.value.code == "data.no_training_files"
    with raises("data.mixed_purposes") as caught:
        files_in([tmp_path])
    assert caught.value.code == "data.mixed_purposes"
    (tmp_path / "test.jsonl").unlink()
    assert files_in([tmp_path]) == [tmp_path / "validation.jsonl"]  # to measure on


def test_words_that_contain_the_name_of_a_split_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "test"  # named by the user
    folder.mkdir()
    for file in ("contest.jsonl", "latest.jsonl", "values.csv"):
        (folder / file).write_text("text\na\n")
    assert len(files_in([folder])) == 3


@pytest.mark.parametrize("name", ["b.jsonl.zst", "b.jsonl.bz2", "b.xlsx", "deep/b.arrow"])
def test_data_that_is_not_read_is_not_passed_over(tmp_path: Path, name: str) -> None:
    for file in ("a.jsonl", name):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("text\na\n")
    with raises("data.other_format", name):
        files_in([tmp_path])


@pytest.mark.parametrize("target", ["nothing", "folder"])
def test_a_link_that_is_not_followed_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "folder").mkdir()
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.jsonl").write_text("{}")
    (data / "b").symlink_to(tmp_path / target)
    with pytest.raises(InputError, match="link"):
        files_in([data])


def test_files_about_the_data_are_not_learned(tmp_path: Path) -> None:
    about = ("LICENSE.txt", "readme.txt", "dataset_infos.json", "state.json", "metadata.json")
    for file in ("a.jsonl", *about):
        (tmp_path / file).write_text("words")
    assert files_in([tmp_path]) == [tmp_path / "a.jsonl"]


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("words")
    with raises("data.no_files") as caught:
        files_in([tmp_path])
    assert caught.value.code == "data.no_files"


def test_a_compressed_file_without_inner_suffix_is_data(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.gz").write_bytes(gzip.compress(LINES))
    (tmp_path / "code.py.gz").write_bytes(gzip.compress(b"import x\n"))
    assert files_in([tmp_path]) == [tmp_path / "rows.gz"]
