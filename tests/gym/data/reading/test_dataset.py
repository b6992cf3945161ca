"""Files into records."""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.data.reading.columns import Layout
from zoo.gym.data.reading.dataset import fingerprint, read_dataset
from zoo.gym.data.reading.text import read_paragraphs
from zoo.gym.errors import InputError

Write = Callable[[str, bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make


def test_one_file_may_mix_formats(write: Write) -> None:
    rows = [{"text": "a"}, {"prompt": "b", "completion": "c"}, {"text": "d"}]
    path = write("mix.jsonl", "\n".join(map(json.dumps, rows)).encode())
    data = read_dataset([path])
    assert [record.kind for record in data.records] == ["text", "completion", "text"]
    assert data.formats == {str(path): "text + prompt/completion"}


def test_a_bad_row_is_kept_out_and_the_rest_is_kept(write: Write) -> None:
    path = write("rows.jsonl", b'{"text": "a"}\n{"text": "b\n{"text": "c"}\n')
    data = read_dataset([path])
    assert [record.source for record in data.records] == [f"{path}:1", f"{path}:3"]
    assert str(data.problems[0]).startswith(f"{path}:2: truncated JSON")


def test_the_first_rows_of_each_file_are_taken(write: Write) -> None:
    many = write("many.jsonl", b'{"text": "a"}\n{"text": "b\n{"text": "c"}\n{"text": "d"}\n')
    one = write("one.jsonl", b'{"text": "e"}\n')
    data = read_dataset([many, one], 2)
    assert [record.text for record in data.records] == ["a", "c", "e"]
    assert data.notes == (f"{many}: the first 2 of 3 rows are used (max_samples)",)


def test_rows_beyond_the_limit_are_not_reported(write: Write) -> None:
    path = write("a.jsonl", b'{"text": "a"}\n{"text": "b", "extra": 1}\n{"text": 3}\n')
    data = read_dataset([path], max_samples=1)
    assert (data.problems, len(data.notes)) == ((), 1)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", b"", "empty file: expected rows of data, got none"),
        ("a.jsonl", b" \n\n", "empty file"),
        ("a.json", b"[]", "empty file"),
        ("a.txt", b"\xef\xbb\xbf\n", "empty file"),
        (
            "a.jsonl",
            b"{\x00}",
            "not text: expected json, jsonl, csv, tsv, parquet or plain text, got a",
        ),
        ("a.bin", b"\x89PNG\r\n\x1a\n\x00", "not text"),
        ("a.txt", b"ok\ncaf\xe9", "a.txt:2: not UTF-8 text: got the byte 0xe9"),
        ("a.txt", b"\xff\xfea\x00", "expected UTF-8 text, got UTF-16"),
        ("a.xlsx", b"PK", "expected json, jsonl, csv, tsv, parquet or plain text, got xlsx"),
        ("a.json", b"version https://git-lfs.github.com/spec/v1", "got a Git LFS pointer"),
        ("a.jsonl", b'{"txet": "a"}', "a.jsonl:1: no known format, the nearest is text"),
        ("a.jsonl", b'{"text": "cut', "a.jsonl:1: truncated JSON"),
        ("a.jsonl", b"just words", "a.jsonl:1: not valid JSON"),
    ],
)
def test_a_file_without_a_usable_row_is_refused(
    write: Write, name: str, content: bytes, sentence: str
) -> None:
    path = write(name, content)
    with pytest.raises(InputError) as caught:
        read_dataset([path])
    assert caught.value.message.startswith(str(path))
    assert sentence in caught.value.message


def test_an_absent_file_is_not_available(tmp_path: Path) -> None:
    with raises("data.missing_file") as caught:
        read_dataset([tmp_path / "absent.jsonl"])
    assert caught.value.code == "data.missing_file"


def test_a_file_that_may_not_be_read_is_not_available(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    path = write("a.txt", b"a")
    monkeypatch.setattr(Path, "open", refuse)
    with raises("data.no_permission") as caught:
        read_dataset([path])
    assert caught.value.code == "data.no_permission"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with raises("data.folder") as caught:
        read_dataset([tmp_path])
    assert caught.value.code == "data.folder"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes with a path")
@pytest.mark.parametrize("read", [read_dataset, fingerprint])
def test_a_pipe_is_refused_before_a_byte_of_it_is_taken(
    tmp_path: Path, read: Callable[[list[Path]], object]
) -> None:
    named = tmp_path / "rows.jsonl"
    os.mkfifo(named)
    from_shell, to_shell = os.pipe()  # what bash makes of <(...)
    os.write(to_shell, b"rows")
    for path in (named, Path(f"/dev/fd/{from_shell}")):
        with raises("data.stream", "got a pipe") as caught:
            read([path])
        assert caught.value.code == "data.stream"
    assert os.read(from_shell, 9) == b"rows"
    os.close(from_shell)
    os.close(to_shell)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_file_under_a_name_of_this_process_alone_is_refused(write: Write) -> None:
    with write("rows.jsonl", b'{"text": "a"}').open() as file:
        path = Path(f"/dev/fd/{file.fileno()}")
        with raises("data.stream", "got a stream of this process") as caught:
            read_dataset([path])
        assert caught.value.code == "data.stream"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no /dev/shm")
def test_a_file_in_memory_is_a_file() -> None:
    with NamedTemporaryFile(dir="/dev/shm", suffix=".jsonl") as file:
        file.write(b'{"text": "a"}')
        file.flush()
        assert len(read_dataset([Path(file.name)]).records) == 1


LONG = json.dumps({"text": "a" * 9000})


@pytest.mark.parametrize("name", ["rows", "rows.data", "rows.txt", "rows.md"])
@pytest.mark.parametrize(
    "content",
    [
        '{"text": "a"}\n{"text": "b"}\n',
        f"\ufeff\n{LONG}\n{LONG}",
        '[{"text": "a"}, {"text": "b"}]',
        '\ufeff\n[\n  {\n    "text": "a"\n  },\n  {"text": "b"}\n]\n',
        '{\n  "text": "a"\n}\n',
    ],
)
def test_json_rows_are_found_under_any_name(write: Write, name: str, content: str) -> None:
    path = write(name, content.encode())
    assert read_dataset([path]).formats == {str(path): "text"}


@pytest.mark.parametrize(
    "content",
    [
        "[1] See the notes.\n",
        "[{curly}] and more\n",
        "[link](https://example.org)\n",
        '["one", "two"]\n',
        "{% raw %}\ntext\n",
        '{\n"title": "front matter"\n}\n\nThe text.\n',
        "12\n",
    ],
)
@pytest.mark.parametrize("name", ["rows", "rows.txt"])
def test_prose_that_begins_with_a_bracket_is_prose(write: Write, name: str, content: str) -> None:
    path = write(name, content.encode())
    assert read_dataset([path]).formats == {str(path): "plain text"}


@pytest.mark.parametrize("start", ["", '[{"text": "a"},\n'])
def test_a_zero_byte_is_found_wherever_it_is(write: Write, start: str) -> None:
    path = write("rows.txt", (start + "a" * 9000).encode() + b"\0")
    with raises("data.zero_byte", f"got a zero byte at offset {9000 + len(start)}"):
        read_dataset([path])


@given(st.text(alphabet="a\n"))
def test_paragraphs_joined_by_blank_lines_are_the_text_again(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(text.encode())
    assert "\n\n".join(r.text for r in read_paragraphs(path)) == text.strip("\n")


def test_a_text_file_ends_once(write: Write) -> None:
    path = write("story.txt", b"A\n\nB\n\nC\n")
    assert [record.ends for record in read_paragraphs(path)] == [False, False, True]


def test_a_paragraph_knows_the_line_it_starts_on(write: Write) -> None:
    path = write("a.txt", b"\n\none\ntwo\r\n\r\n\r\nthree")  # lines 3, 4 and 7
    sources = [record.source for record in read_paragraphs(path)]
    assert sources == [f"{path}:3", f"{path}:7"]


def test_the_fingerprint_of_one_file_is_its_sha256(write: Write) -> None:
    path = write("a.txt", b"abc")
    assert fingerprint([path]) == hashlib.sha256(b"abc").hexdigest()


def test_the_fingerprint_depends_on_bytes_and_order_only(write: Write) -> None:
    a, b, same = write("a.txt", b"1"), write("b.txt", b"2"), write("c.txt", b"1")
    assert fingerprint([a, b]) == fingerprint([same, b])
    assert len({fingerprint([a, b]), fingerprint([b, a]), fingerprint([a])}) == 3


def test_columns_that_are_not_named_are_text_whatever_their_name(write: Write) -> None:
    path = write("rows.csv", b"Question,Response,History,Tools\nHi,Yo,of Rome,hammer\n")
    layout = Layout({"prompt": "Question", "response": "Response"})
    (record,) = read_dataset([path], layout=layout).records
    assert (record.prompt, record.completion) == ("Hi", "Yo")
