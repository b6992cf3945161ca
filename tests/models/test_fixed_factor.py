"""The factor that everybody derives from a seed: the same bytes everywhere, and well spread."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.core.errors import InputError
from zoo.models.fixed_factor import factor_scale, factor_signs, fixed_factor

SEED = "0123456789abcdef" * 4
NAME = "model.layers.0.mlp.up_proj.weight"


def test_the_bytes_never_change() -> None:
    assert factor_signs(SEED, NAME, 2, 20).tobytes().hex() == "ae4e0506ee0d"
    assert fixed_factor(SEED, NAME, 1, 4).tolist() == [[-0.5, 0.5, 0.5, 0.5]]


@given(st.integers(1, 5), st.integers(1, 70))
def test_ten_lines_of_the_standard_library_give_the_same(rank: int, columns: int) -> None:
    width = (columns + 7) // 8
    text = f"zoo-gym fixed factor 1\n{SEED}\n{NAME}\n"
    stream = hashlib.shake_256(text.encode()).digest(rank * width)
    size = max(2.0**-k for k in range(30) if 4.0**-k * columns <= 1)
    rows = [
        [size if stream[k * width + i // 8] >> i % 8 & 1 else -size for i in range(columns)]
        for k in range(rank)
    ]
    assert fixed_factor(SEED, NAME, rank, columns).tolist() == rows
    assert factor_scale(columns) == size


def test_padding_is_zero_so_that_a_file_has_one_form() -> None:
    signs = factor_signs(SEED, NAME, 50, 13)
    assert not (signs[:, 1] >> 5).any()


def test_seeds_and_tensors_have_factors_of_their_own() -> None:
    made = [(SEED, NAME), ("f" * 64, NAME), (SEED, "another.weight")]
    found = [fixed_factor(seed, name, 64, 256).reshape(-1) for seed, name in made]
    for row, one in enumerate(found):
        for other in found[:row]:
            cosine = float(one @ other) / float(one @ one)
            assert abs(cosine) < 4 / np.sqrt(64 * 256)


def test_rows_are_nearly_orthogonal_and_of_norm_a_half_to_one() -> None:
    A = fixed_factor(SEED, NAME, 16, 1000)
    gram = A @ A.T
    assert np.all((np.diag(gram) > 0.25) & (np.diag(gram) <= 1))
    assert np.abs(gram / gram[0, 0] - np.eye(16)).max() < 5 / np.sqrt(1000)


@pytest.mark.parametrize(
    ("seed", "name", "message"),
    [("0" * 63, NAME, "seed: expected 64"), ("G" * 64, NAME, "seed"), (SEED, "a\nb", "one line")],
)
def test_bad_input_is_refused(seed: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        factor_signs(seed, name, 1, 8)


def test_no_rank_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        factor_signs(SEED, NAME, 0, 8)
