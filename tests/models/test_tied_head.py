"""When a stored head counts as a copy of the embedding."""

import json
from pathlib import Path

import pytest

from zoo.core import read_header
from zoo.models.tied_head import HEAD, head_is_copy

EMBEDDING = "model.embed_tokens.weight"


def write_pair(path: Path, head: bytes, shape: list[int], dtype: str = "U8") -> Path:
    """Writes an embedding of the bytes 0 to 5 in the shape [2, 3], and a head beside it."""
    info = {
        HEAD: {"dtype": dtype, "shape": shape, "data_offsets": [0, 6]},
        EMBEDDING: {"dtype": "U8", "shape": [2, 3], "data_offsets": [6, 12]},
    }
    header = json.dumps(info).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + head + bytes(range(6)))
    return path


@pytest.mark.parametrize(
    ("head", "shape", "dtype", "copy"),
    [
        (bytes(range(6)), [2, 3], "U8", True),
        (bytes(6), [2, 3], "U8", False),
        (bytes(range(6)), [3, 2], "U8", False),
        (bytes(range(6)), [2, 3], "I8", False),
    ],
    ids=["same", "other bytes", "other shape", "other type"],
)
def test_a_head_is_a_copy_with_the_type_shape_and_bytes_of_the_embedding(
    tmp_path: Path, head: bytes, shape: list[int], dtype: str, *, copy: bool
) -> None:
    file = write_pair(tmp_path / "model.safetensors", head, shape, dtype)
    tensors = {name: (file, info) for name, info in read_header(file).tensors.items()}
    assert head_is_copy(tensors) is copy


def test_without_a_head_or_with_two_embeddings_there_is_no_copy(tmp_path: Path) -> None:
    file = write_pair(tmp_path / "model.safetensors", bytes(range(6)), [2, 3])
    tensors = {name: (file, info) for name, info in read_header(file).tensors.items()}
    assert not head_is_copy({EMBEDDING: tensors[EMBEDDING]})
    assert not head_is_copy(tensors | {"other.wte.weight": tensors[EMBEDDING]})
