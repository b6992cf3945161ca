"""The trainable numbers of a dense delta: their gradient, and what is written of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.tensor import encode_tensor
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.terms import LowRankTerm, TensorTerms
from zoo.gym.delta.latent_factors import PREFIX, LatentFactors
from zoo.gym.delta.reading.adapter import Adapter
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.delta.trainable import ScaledTensor

SHAPES = {"a matrix": (9, 300), "stacked experts": (2, 5, 130)}

CODINGS = {
    "row": Dense(),
    "matrix": Dense(scale="matrix"),
    "column": Dense(scale="column"),
    "group": Dense(scale="group"),
    "mask": Dense(zero="mask"),
    "planes": Dense(planes=3),
    "masked groups of planes": Dense(scale="group", zero="mask", planes=2),
    "ternary": Dense("ternary"),
    "int2": Dense("int", bits=2),
    "int4": Dense("int", bits=4),
    "int8": Dense("int", bits=8),
}


def trainable(shape: tuple[int, ...], coding: Dense) -> ScaledTensor:
    """Returns the change of a random tensor, a third of whose values did not change."""
    random = np.random.default_rng(0)
    base = random.standard_normal(shape).astype(np.float32)
    change = random.standard_normal(shape).astype(np.float32) * 0.1
    change[random.random(shape) < 0.3] = 0
    before, after = Values(base, "f32", "base"), Values(base + change, "f32", "tuned")
    encoded = encode_tensor("t", before, after, coding)
    assert encoded is not None
    return ScaledTensor(encoded.tensor, encoded.arrays, lambda: before, "p")


def check_gradient(tensor: ScaledTensor) -> None:
    """Compares each derivative with the change of the weights by one number."""
    gradient = np.random.default_rng(1).standard_normal(tensor.tensor.shape).astype(np.float32)
    gradients = tensor.gradients("p", gradient)
    assert gradients.keys() == tensor.trained.keys()
    for part, values in gradients.items():
        numbers = tensor.trained[part]
        assert values.shape == numbers.shape
        for index in list(np.ndindex(numbers.shape))[::7]:
            before, changed = numbers[index], []
            for number in (0.0, 1.0):
                numbers[index] = number
                [(_, weights)] = tensor.parameters()
                changed.append(weights.astype("f8"))
            numbers[index] = before
            expected = float(((changed[1] - changed[0]) * gradient).sum())
            assert values[index] == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("coding", CODINGS)
def test_a_gradient_is_the_derivative_by_one_number(shape: str, coding: str) -> None:
    check_gradient(trainable(SHAPES[shape], CODINGS[coding]))


def test_the_gradient_of_a_plain_difference_is_that_of_the_vector() -> None:
    check_gradient(trainable((300,), Dense()))


@pytest.mark.parametrize("coding", CODINGS)
def test_what_is_written_gives_the_weights_that_were_computed_with(coding: str) -> None:
    tensor = trainable((9, 300), CODINGS[coding])
    stored = tensor.encoded().arrays
    [(_, weights)], [(_, written)] = tensor.parameters(), tensor.parameters(stored)
    assert np.array_equal(weights, written)
    assert all(stored[part].dtype.itemsize <= 4 for part in tensor.trained)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [4, 3])
def test_the_gradient_of_a_factor_is_the_derivative_by_one_number(
    transposed: bool, rank: int, tmp_path: Path
) -> None:
    """With factors that are not coded, so that the parameters are linear in them."""
    random = np.random.default_rng(0)
    names = [f"{PREFIX}layer.lora_{side}.weight" for side in "AB"]
    factors = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in zip(names, ((4, 6), (5, 4)), strict=True)
    }
    save_file(factors, tmp_path / "a.safetensors")
    weight = "layer.weight"
    adapter = Adapter(
        open_weights(tmp_path / "a.safetensors"),
        {weight: 3.0},
        {weight: (names[0], names[1])},
        frozenset({weight} if transposed else ()),
    )
    term = LowRankTerm(rank=rank, A="f32", B="f32")
    shape = (6, 5) if transposed else (5, 6)
    tensor = LatentFactors(TensorTerms(name=weight, shape=shape, terms=(term,)), adapter)
    if rank == 4:
        for (name, values), stored in zip(tensor.parameters(), names, strict=True):
            assert PREFIX + name == stored
            np.testing.assert_allclose(values, factors[stored], rtol=1e-6)
    above = {name: random.standard_normal(values.shape) for name, values in tensor.parameters()}
    gradients: dict[str, Any] = {}
    for name, gradient in above.items():
        gradients |= tensor.gradients(name, gradient.astype(np.float32))
    for part, numbers in tensor.trained.items():
        assert gradients[part].shape == numbers.shape
        for index in np.ndindex(numbers.shape):
            before, sums = numbers[index], []
            for number in (0.0, 1.0):
                numbers[index] = number
                sums.append(sum((v * above[n]).sum() for n, v in tensor.parameters()))
            numbers[index] = before
            assert gradients[part][index] == pytest.approx(sums[1] - sums[0], rel=1e-3, abs=1e-3)


def test_values_of_a_sparse_term_are_exact_and_not_trained() -> None:
    assert not trainable((9, 300), Dense("sparse")).trained
