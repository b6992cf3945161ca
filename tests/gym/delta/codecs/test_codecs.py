"""What coding costs: nothing in the signs, half a step in a factor."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from tests.gym.delta import models_on_disk as disk
from zoo.gym.delta import difference
from zoo.gym.delta.changes import encode_factors
from zoo.gym.delta.codecs.floats import from_bf16, to_bf16
from zoo.gym.delta.codecs.lowrank import decode_factors
from zoo.gym.delta.codecs.options import Dense, LowRank
from zoo.gym.delta.codecs.tensor import Encoded, encode_tensor
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.header import Base, DeltaHeader
from zoo.gym.delta.file.reader import load_delta, tensor_parts
from zoo.gym.delta.file.terms import LowRankTerm
from zoo.gym.delta.file.writer import Spool, write_delta
from zoo.gym.delta.reading.weights import open_weights, read_float32

SIXTEENTHS = st.integers(-1000, 1000).map(lambda number: number / 16)


def written(encoded: Encoded, folder: Path) -> NDArray[np.float32]:
    """Writes one coded tensor as a delta and reads its difference back."""
    is_lowrank = encoded.tensor.terms[0].kind == "lowrank"
    header = DeltaHeader(
        form="lowrank" if is_lowrank else "dense",
        base=Base(identity="0" * 64, id="b", revision=None),
        tensors=(encoded.tensor,),
        recipe={},
        seed=None,
        data=None,
        privacy=None,
        tool="test",
        quality=None,
    )
    with Spool(folder) as spool:
        spool.add_tensor(encoded)
        write_delta(folder / "d.safetensors", header, spool)
    delta = load_delta(folder / "d.safetensors")
    return difference(delta, encoded.tensor)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.data())
def test_every_sign_survives_and_the_size_is_the_row_mean(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=2, max_dims=3, max_side=9))
    before, after = (data.draw(arrays(np.float32, shape, elements=SIXTEENTHS)) for _ in range(2))
    with tempfile.TemporaryDirectory() as name:
        sides = (Values(before, "f32", "base"), Values(after, "f32", "tuned"))
        encoded = encode_tensor("w", *sides, Dense(zero="minus"))
        d = after - before
        assert (encoded is None) == (not d.any())
        if encoded is not None:
            found = written(encoded, Path(name))
            mean = np.abs(d).mean(axis=-1, keepdims=True, dtype=np.float64)
            np.testing.assert_allclose(found, np.where(d > 0, mean, -mean), rtol=2e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.data())
def test_a_factor_entry_is_at_most_half_a_step_off(data: st.DataObject) -> None:
    rank, rows, columns = (data.draw(st.integers(1, 150)) for _ in range(3))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    A = random.standard_normal((rank, columns), np.float32)
    B = random.standard_normal((rank, rows), np.float32)
    with tempfile.TemporaryDirectory() as name:
        encoded = encode_factors("w", A, B, LowRank())
        assert encoded is not None
        written(encoded, Path(name))
        delta = load_delta(Path(name) / "d.safetensors")
        (term,) = encoded.tensor.terms
        assert isinstance(term, LowRankTerm)
        back = decode_factors(term, tensor_parts(delta, encoded.tensor), (rows, columns))
        for factor, found in zip((A, B), back, strict=True):
            reach = np.maximum(factor.max(), 0) - np.minimum(factor.min(), 0)
            assert np.abs(factor - found).max() <= reach / 6 * 1.002  # a step is a third, and f16


@pytest.mark.slow
@settings(deadline=None)
@given(arrays(np.float32, 20, elements=st.floats(-(2.0**120), 2.0**120, width=32)))
def test_bfloat16_is_rounded_as_torch_rounds_it(values: NDArray[np.float32]) -> None:
    import torch

    theirs = torch.from_numpy(values).to(torch.bfloat16).view(torch.uint16).numpy()
    np.testing.assert_array_equal(to_bf16(values), theirs)


def test_a_tie_goes_to_the_even_neighbour() -> None:
    # bfloat16 steps by 2^-7 above 1: 1 + 1/256 and 1 + 3/256 lie halfway
    ties = np.array([1 + 1 / 256, 1 + 3 / 256, -1 - 1 / 256], np.float32)
    np.testing.assert_array_equal(from_bf16(to_bf16(ties)), [1, 1 + 4 / 256, -1])


@pytest.mark.slow
@settings(deadline=None)
@given(arrays(np.float32, (3, 5), elements=st.floats(-1000, 1000, width=16)))
def test_half_precision_reads_back_exactly(values: NDArray[np.float32]) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = disk.write_tensors(Path(name) / "w.safetensors", {"w": values}, "float16")
        np.testing.assert_array_equal(read_float32(open_weights(file), "w"), values)
