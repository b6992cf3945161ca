"""The GGUF header reader: takes what the `gguf` package writes, with the same sizes of types."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.hostile_gguf import ARRAY, SOUND, TEXT, U8, alone, array, only, text
from zoo.core import GgufHeader, read_gguf_header
from zoo.core.errors import InputError


def read(folder: Path, content: bytes) -> GgufHeader:
    path = folder / "file.gguf"
    path.write_bytes(content)
    return read_gguf_header(path)


def test_values_come_as_python_and_numpy_have_them(tmp_path: Path) -> None:
    assert read(tmp_path, SOUND["truth"]).metadata == {"k": True}
    assert read(tmp_path, SOUND["text"]).metadata == {"k": "ü"}
    assert read(tmp_path, SOUND["tokens"]).metadata == {"k": ["a", "", "bc"]}
    scores: Any = read(tmp_path, SOUND["scores"]).metadata["k"]
    assert (scores.dtype, scores.tolist()) == (np.float32, [0.0, 0.0])


def test_arrays_in_arrays_stay_lists(tmp_path: Path) -> None:
    nested = array(ARRAY, 2, array(U8, 2, b"\1\2") + array(TEXT, 1, text("a")))
    found: Any = read(tmp_path, alone(nested)).metadata["k"]
    assert found[0].tolist() == [1, 2]
    assert found[1] == ["a"]


def test_a_shape_is_as_numpy_has_it(tmp_path: Path) -> None:
    tensor = read(tmp_path, only([2, 3], data=24)).tensors["x"]
    assert (tensor.type, tensor.shape, tensor.stop - tensor.start) == ("F32", (3, 2), 24)


def test_absent_files_and_folders_are_distinguished(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_gguf_header(tmp_path / "absent")
    with pytest.raises(InputError, match="got a folder"):
        read_gguf_header(tmp_path)


def written(path: Path) -> Any:
    """Writes a file with the package and returns it as its own reader has it."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("answer", 42)
    writer.add_float64("half", 0.5)
    writer.add_token_list(["a", "bc", "ü"])
    writer.add_array("scores", [0.25, -1.0])
    writer.add_tensor("weight", np.ones((3, 5), np.float32))
    blocks = gguf.quants.quantize(np.ones((2, 64), np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return gguf.GGUFReader(path)


def test_what_the_gguf_package_writes_is_read_as_it_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    theirs = written(path)
    ours = read_gguf_header(path)
    expected = {
        t.name: (
            t.tensor_type.name,
            tuple(reversed(t.shape.tolist())),
            int(t.data_offset),
            int(t.n_bytes),
        )
        for t in theirs.tensors
    }
    found = {n: (t.type, t.shape, t.start, t.stop - t.start) for n, t in ours.tensors.items()}
    assert found == expected
    plain = [ours.metadata[key] for key in ("general.architecture", "answer", "half")]
    assert plain == ["llama", 42, 0.5]
    assert ours.metadata["tokenizer.ggml.tokens"] == ["a", "bc", "ü"]


def test_sizes_of_types_are_those_of_the_gguf_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    for kind, (values, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":  # no file holds it
            continue
        content = only([values], int(kind), data=size)
        tensor = read(tmp_path, content).tensors["x"]
        assert (tensor.type, tensor.stop - tensor.start) == (kind.name, size)
