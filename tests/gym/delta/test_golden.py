"""The format is frozen: today's program writes and reads yesterday's bytes."""

from pathlib import Path

import numpy as np
import pytest

from tests.gym.delta.golden.make import NAMES, SHAPES, make_all, values
from tests.gym.delta.reference_reader import read_differences
from zoo.gym.delta import difference, load_delta
from zoo.gym.delta.codecs.tensor import apply_rows
from zoo.gym.delta.file.reader import tensor_parts
from zoo.gym.delta.file.terms import rows_and_columns

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_all(tmp_path_factory.mktemp("golden"))[0].parent


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_the_golden_file(name: str, made: Path) -> None:
    file = f"{name}.safetensors"
    assert (made / file).read_bytes() == (GOLDEN / file).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_file_reads_as_the_reference_reads_it(name: str) -> None:
    delta = load_delta(GOLDEN / f"{name}.safetensors")
    base = {tensor.name: values(tensor.shape, 1) for tensor in delta.header.tensors}
    theirs = read_differences(delta.path, base)
    for tensor in delta.header.tensors:
        ours = difference(delta, tensor, base=base[tensor.name])
        assert ours.tobytes() == theirs[tensor.name].tobytes(), tensor.name


def test_the_golden_sparse_delta_gives_the_fine_tune_to_the_bit() -> None:
    delta = load_delta(GOLDEN / "sparse.safetensors")
    for tensor in delta.header.tensors:
        base = values(tensor.shape, 1)
        tuned, (rows, columns) = base.copy(), rows_and_columns(tensor.shape)
        matrix = tuned.reshape(rows, columns)
        apply_rows(tensor, tensor_parts(delta, tensor), slice(0, rows), matrix)
        assert tuned.tobytes() == (base + values(tensor.shape, 5) / 4).tobytes()


def test_the_golden_dense_delta_holds_what_was_put_in() -> None:
    found = read_differences(GOLDEN / "dense.safetensors")
    for name, shape in SHAPES.items():
        change = values(shape, 5) / 4
        sizes = np.abs(change).mean(axis=-1, keepdims=True)
        expected = np.where(change > 0, sizes, -sizes) if len(shape) == 2 else change
        np.testing.assert_allclose(found[name], expected, rtol=1e-6)
