"""The header reader: takes what the format's own library writes, refuses what is malformed."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save_file

from zoo.core import Header, TensorInfo, read_header
from zoo.core.errors import InputError

ONE = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read(folder: Path, content: bytes) -> Header:
    path = folder / "file.safetensors"
    path.write_bytes(content)
    return read_header(path)


def one(**changes: Any) -> bytes:
    return file_of({"a": ONE["a"] | changes}, bytes(4))


def two(first: list[int], second: list[int], size: int) -> bytes:
    entries = {"a": ONE["a"] | {"data_offsets": first}, "b": ONE["a"] | {"data_offsets": second}}
    return file_of(entries, bytes(size))


MALFORMED = {
    "shorter than its length field": (b"1234567", "truncated file: expected at least 8 bytes"),
    "header beyond the file": (struct.pack("<Q", 100) + b"{}", "expected a header of 100 bytes"),
    "header too long": (struct.pack("<Q", 10**8 + 1), "a header of 100000001 bytes"),
    "not UTF-8": (struct.pack("<Q", 4) + b'{"\xff"', "expected UTF-8, got byte 0xff at position 2"),
    "no object": (file_of("[]"), r"expected '\{', got '\['"),
    "empty header": (file_of(""), r"expected '\{', got nothing"),
    "broken JSON": (file_of('{"a": }'), "header is malformed: 'a': expected value"),
    "name twice": (file_of('{"a":' + json.dumps(ONE["a"]) + ',"a":1}'), "'a' is there twice"),
    "unknown dtype": (
        one(dtype="F128"),
        "unknown dtype: expected one like F32 or BF16, got 'F128'",
    ),
    "negative shape": (one(shape=[-1]), "'a': invalid value: integer `-1`"),
    "overflowing shape": (one(shape=[2**40, 2**40]), "impossible shape"),
    "shape no integer": (one(shape=[1.0]), "floating point"),
    "negative offset": (one(data_offsets=[-4, 0]), "invalid value: integer `-4`"),
    "reversed offsets": (
        one(data_offsets=[4, 0]),
        r"expected a start before its end, got \[4, 0\]",
    ),
    "wrong size": (one(shape=[2]), r"expected 8 bytes for \[2\] of F32, got 4"),
    "unknown field": (one(extra=1), "unknown field `extra`"),
    "offsets out of range": (file_of(ONE, bytes(3)), "truncated file: expected at least"),
    "trailing bytes": (file_of(ONE, bytes(5)), "bytes behind the last tensor"),
    "overlap": (two([0, 4], [2, 6], 6), "tensor 'b' overlaps another"),
    "hole": (two([0, 4], [8, 12], 12), "hole before tensor 'b'"),
    "metadata no text": (file_of({"__metadata__": {"k": 1}}), "'__metadata__': 'k': invalid type"),
    "git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
        "git LFS pointer instead of the file itself",
    ),
    "pickle in a zip": (b"PK\x03\x04" + bytes(60), "got a zip archive"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    content, part = MALFORMED[name]
    with pytest.raises(InputError, match=part) as caught:
        read(tmp_path, content)
    assert caught.value.message.startswith(f"{tmp_path / 'file.safetensors'}: ")
    assert not caught.value.message.endswith(".")


def test_a_git_lfs_pointer_comes_with_the_command_that_mends_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, MALFORMED["git LFS pointer"][0])
    assert caught.value.hint == "fetch the file itself: git lfs pull"


def test_a_file_of_the_formats_own_library_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    tensors: dict[str, NDArray[Any]] = {
        "scalar": np.array(1.0, np.float16),
        "none": np.zeros((0, 3), np.int64),
        "ü": np.ones((2, 3), np.float32),
    }
    save_file(tensors, path, metadata={"format": "pt", "note": "a\nb"})
    header = read_header(path)
    assert header.metadata == {"format": "pt", "note": "a\nb"}
    for name, dtype in [("scalar", "F16"), ("none", "I64"), ("ü", "F32")]:
        info = header.tensors[name]
        assert (info.dtype, info.shape) == (dtype, tensors[name].shape)
        assert path.read_bytes()[info.start : info.stop] == tensors[name].tobytes()


def test_metadata_may_be_null_as_mlx_writes_it(tmp_path: Path) -> None:
    assert read(tmp_path, file_of({"__metadata__": None})) == Header({}, {})


def test_tensors_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    content = two([4, 8], [0, 4], 8)
    start = len(content) - 8
    assert list(read(tmp_path, content).tensors.items()) == [
        ("b", TensorInfo("F32", (1,), start, start + 4)),
        ("a", TensorInfo("F32", (1,), start + 4, start + 8)),
    ]


@given(content=st.binary(max_size=300))
def test_any_bytes_are_survived(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    with contextlib.suppress(InputError):
        assert read(tmp_path_factory.getbasetemp(), content).tensors == {}


def mutations() -> st.SearchStrategy[bytes]:
    """Well-formed files with one token or byte of the header exchanged."""
    tokens = ["0", "4", "8", "-1", "[", "]", "{", "}", ",", '"a"', "null", "1e0", " ", '"F64"', ""]
    whole = two([0, 4], [4, 8], 8)

    def change(at: int, length: int, token: str) -> bytes:
        text = whole[8:-8].decode()
        return file_of(text[:at] + token + text[at + length :], bytes(8))

    return st.builds(change, st.integers(0, 120), st.integers(0, 12), st.sampled_from(tokens))


@given(content=mutations())
def test_what_is_accepted_the_formats_own_library_accepts(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        header = read(tmp_path_factory.getbasetemp(), content)
    except InputError:
        return
    theirs = dict(safetensors.deserialize(content))  # type: ignore[no-untyped-call]
    assert set(theirs) == set(header.tensors)


def test_absent_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read_header(tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent")
    with pytest.raises(InputError, match=r"not a regular file: .* got a folder"):
        read_header(tmp_path)
