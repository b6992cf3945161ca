"""The least squares of a fine-tune in the round's factors."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from zoo.gym.rounds.privacy.contribution import project
from zoo.gym.tuned.changes import Changes
from zoo.models.fixed_factor import fixed_factor

SEED, RANK = "7e" * 32, 3
SHAPES: dict[str, tuple[int, ...]] = {"a": (5, 40), "b": (4, 17)}
Matrices = dict[str, NDArray[np.float32]]


class Known(Changes):
    """Changes that a test has at hand."""

    def __init__(self, matrices: Matrices) -> None:
        self.source, self.names = Path("known"), sorted(matrices)
        self._matrices = matrices

    def change(self, name: str) -> NDArray[np.float32]:
        return self._matrices[name]


class Factored(Known):
    def __init__(self, pairs: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]) -> None:
        super().__init__({name: b.T @ a for name, (a, b) in pairs.items()})
        self._pairs = pairs

    def factors(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._pairs[name]


def random(shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_change_trained_on_the_rounds_factors_is_kept_exactly() -> None:
    pairs = {
        name: (fixed_factor(SEED, name, RANK, shape[1]), random((RANK, shape[0]), 1))
        for name, shape in SHAPES.items()
    }
    found = project(Factored(pairs), SHAPES, RANK, SEED)
    assert found.kept == pytest.approx(1)
    for name, (_, b) in pairs.items():
        assert found.b[name].tobytes() == b.tobytes()
    size = sum(float(np.square(b).sum()) for _, b in pairs.values())
    assert found.norm == pytest.approx(size**0.5)


def test_a_matrix_in_their_span_is_found_again() -> None:
    b = random((RANK, 5), 2)
    matrices = {"a": b.T @ fixed_factor(SEED, "a", RANK, 40)}
    found = project(Known(matrices), SHAPES, RANK, SEED)
    assert found.kept == pytest.approx(1)
    np.testing.assert_allclose(found.b["a"], b, atol=1e-5)
    assert not found.b["b"].any()


@pytest.mark.parametrize("own_rank", [1, 6])
def test_factors_of_another_rank_are_projected_as_their_product(own_rank: int) -> None:
    pairs = {
        name: (random((own_rank, shape[1]), 3), random((own_rank, shape[0]), 4))
        for name, shape in SHAPES.items()
    }
    factored = project(Factored(pairs), SHAPES, RANK, SEED)
    whole = project(Known({n: b.T @ a for n, (a, b) in pairs.items()}), SHAPES, RANK, SEED)
    assert factored.kept == pytest.approx(whole.kept, rel=1e-5)
    for name in SHAPES:
        np.testing.assert_allclose(factored.b[name], whole.b[name], atol=1e-5)


def test_projection_is_nearest_and_keeps_the_rest_of_the_square() -> None:
    D = random((5, 40), 5)
    found = project(Known({"a": D}), {"a": (5, 40)}, RANK, SEED)
    A = fixed_factor(SEED, "a", RANK, 40)
    lost = float(np.square(D - found.b["a"].T @ A).sum())
    assert found.kept == pytest.approx(1 - lost / float(np.square(D).sum()), rel=1e-5)
    for seed in range(20):
        other = found.b["a"] + 1e-2 * random((RANK, 5), 100 + seed)
        assert float(np.square(D - other.T @ A).sum()) > lost


def test_random_change_keeps_about_rank_by_columns() -> None:
    shapes = {"wide": (200, 400)}
    found = project(Known({"wide": random((200, 400), 6)}), shapes, 40, SEED)
    assert found.kept == pytest.approx(40 / 400, rel=0.1)
