"""The header reader: takes what the format's own library writes, refuses what is malformed."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.core.hostile_safetensors import SAFETENSORS, file_of, two
from zoo.core import Header, TensorInfo, read_header
from zoo.core.errors import InputError


def read(folder: Path, content: bytes) -> Header:
    path = folder / "file.safetensors"
    path.write_bytes(content)
    return read_header(path)


def test_a_git_lfs_pointer_comes_with_the_command_that_mends_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, SAFETENSORS["git LFS pointer"].make())
    assert caught.value.hint == "download the file itself: git lfs pull"


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


def test_absent_files_and_folders_are_distinguished(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read_header(tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent")
    with pytest.raises(InputError, match=r"not a regular file: .* got a folder"):
        read_header(tmp_path)
