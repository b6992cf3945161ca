"""The trainable numbers of a dense delta: their gradient, and what is written of them."""

import numpy as np
import pytest

from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.tensor import encode_tensor
from zoo.gym.delta.codecs.values import Values
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
        for place in list(np.ndindex(numbers.shape))[::7]:
            kept = numbers[place]
            changed = []
            for number in (0.0, 1.0):
                numbers[place] = number
                [(_, weights)] = tensor.parameters()
                changed.append(weights.astype("f8"))
            numbers[place] = kept
            expected = float(((changed[1] - changed[0]) * gradient).sum())
            assert values[place] == pytest.approx(expected, rel=1e-5, abs=1e-4)


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


def test_values_of_a_sparse_term_are_exact_and_not_trained() -> None:
    assert not trainable((9, 300), Dense("sparse")).trained
