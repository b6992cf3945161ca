"""The identity of a base, and a digest with a hole."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save_file

from zoo.core import IdentityHasher, base_identity, digest, file_digest
from zoo.core.errors import InputError

Tensors = dict[str, NDArray[np.float32]]


def tensors() -> Tensors:
    return {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.ones(4, np.float32)}


def identity(folder: Path, *shards: Tensors, names: tuple[str, ...] = ("a", "b")) -> str:
    files = [folder / f"{index}.safetensors" for index in range(len(shards))]
    for file, shard in zip(files, shards, strict=True):
        save_file(shard, file)
    return base_identity(files, names)


def test_it_is_the_digest_of_the_documented_bytes(tmp_path: Path) -> None:
    def number(value: int) -> bytes:
        return struct.pack("<Q", value)

    framed = b""
    for name, array in sorted(tensors().items()):
        framed += number(1) + name.encode() + number(3) + b"F32"
        framed += number(array.ndim) + b"".join(map(number, array.shape))
        framed += number(array.nbytes) + array.tobytes()
    plain = tmp_path / "framed"
    plain.write_bytes(framed)
    assert identity(tmp_path, tensors()) == file_digest(plain, zero_at=0, zero_len=0)


def test_shards_order_and_other_tensors_make_no_difference(tmp_path: Path) -> None:
    a, b = ({name: tensors()[name]} for name in "ab")
    together = identity(tmp_path, tensors())
    assert identity(tmp_path, b, a, names=("b", "a", "a")) == together
    assert identity(tmp_path, tensors() | {"c": np.zeros(9, np.float32)}) == together


def test_one_byte_changes_it(tmp_path: Path) -> None:
    changed = tensors()
    changed["b"].view(np.uint8)[1, 5] ^= 1
    assert identity(tmp_path, changed) != identity(tmp_path, tensors())


def test_another_shape_changes_it(tmp_path: Path) -> None:
    reshaped = tensors() | {"b": tensors()["b"].reshape(3, 2)}
    assert identity(tmp_path, reshaped) != identity(tmp_path, tensors())


def test_another_name_changes_it(tmp_path: Path) -> None:
    renamed = {"a": tensors()["a"], "c": tensors()["b"]}
    assert identity(tmp_path, renamed, names=("a", "c")) != identity(tmp_path, tensors())


def test_another_type_changes_it(tmp_path: Path) -> None:
    retyped = tensors() | {"a": tensors()["a"].view(np.int32).view(np.float32)}
    assert identity(tmp_path, retyped) == identity(tmp_path, tensors())
    file = tmp_path / "retyped.safetensors"
    save_file({"b": tensors()["b"], "a": tensors()["a"].view(np.int32)}, file)
    assert base_identity([file], ["a", "b"]) != identity(tmp_path, tensors())


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tensor 'x' is missing: expected it in one of 1 files"):
        identity(tmp_path, tensors(), names=("a", "x"))


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tensor 'a' is duplicated: .*0\.safetensors and .*1\."):
        identity(tmp_path, tensors(), tensors())


def test_no_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tensor names"):
        identity(tmp_path, tensors(), names=())


def test_a_malformed_shard_is_named(tmp_path: Path) -> None:
    shard = tmp_path / "cut.safetensors"
    shard.write_bytes(b"123")
    with pytest.raises(InputError, match=r"cut\.safetensors: truncated file"):
        base_identity([shard], ["a"])


@given(content=st.binary(max_size=200), at=st.integers(0, 200), size=st.integers(0, 200))
def test_the_hole_counts_as_ascii_zeros(
    content: bytes, at: int, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    at = min(at, len(content))
    size = min(size, len(content) - at)
    filled, holed = (tmp_path_factory.getbasetemp() / name for name in ("filled", "holed"))
    holed.write_bytes(content)
    filled.write_bytes(content[:at] + b"0" * size + content[at + size :])
    plain = file_digest(filled, zero_at=0, zero_len=0)
    assert file_digest(holed, zero_at=at, zero_len=size) == plain


def test_an_empty_file_has_the_digest_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    # The published test vector of BLAKE3 for no input.
    expected = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert file_digest(tmp_path / "empty", zero_at=0, zero_len=0) == expected


def test_a_hole_beyond_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"12345")
    with pytest.raises(InputError, match="wrong range 3 to 6: expected one within the file's 5"):
        file_digest(tmp_path / "small", zero_at=3, zero_len=3)
    with pytest.raises(FileNotFoundError):
        file_digest(tmp_path / "absent", zero_at=0, zero_len=0)


def test_tensors_given_one_by_one_hash_as_those_of_a_file(tmp_path: Path) -> None:
    hasher = IdentityHasher()
    for name, array in sorted(tensors().items()):
        hasher.add(name, "F32", array.shape, array.reshape(-1).view(np.uint8))
    assert hasher.finish() == identity(tmp_path, tensors())


def test_a_tensor_out_of_order_is_refused() -> None:
    hasher = IdentityHasher()
    hasher.add("b", "U8", (1,), np.zeros(1, np.uint8))
    with pytest.raises(InputError, match="tensor 'a' is out of order: expected a name after"):
        hasher.add("a", "U8", (1,), np.zeros(1, np.uint8))


@given(st.binary(max_size=5000))
def test_bytes_have_the_digest_of_a_file_with_them(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("digest") / "file"
    path.write_bytes(content)
    assert digest(content) == file_digest(path, zero_at=0, zero_len=0)
    assert digest(np.frombuffer(content, np.uint8)) == digest(content)


def test_other_numbers_than_bytes_have_no_digest() -> None:
    with pytest.raises(TypeError, match="data"):
        digest(np.ones(3, np.float32))
