"""Noise of integers: its frequencies, its key, and what it may not be asked."""

import numpy as np
import pytest

from tests.codes import raises
from zoo.core import discrete_gaussian

KEY = bytes(range(32))


@pytest.mark.parametrize("sigma", [1, 3])
def test_frequencies_are_those_of_the_probability_mass_function(sigma: int) -> None:
    count = 100_000
    found = discrete_gaussian(count, sigma, key=KEY)
    values = np.arange(-50, 51)
    mass = np.exp(-(values**2) / (2 * sigma**2))
    mass /= mass.sum()
    for value, expected in zip(values, mass, strict=True):
        seen = (found == value).mean()
        assert abs(seen - expected) < 5 * np.sqrt(expected / count) + 1e-9  # five deviations


def test_a_key_gives_the_same_values_on_any_number_of_threads() -> None:
    one, two = (discrete_gaussian(10_000, 1000, key=KEY, threads=n) for n in (1, 2))
    assert (one == two).all()
    assert not (discrete_gaussian(100, 1000) == one[:100]).all()  # the system's randomness
    assert not (discrete_gaussian(100, 1000) == discrete_gaussian(100, 1000)).all()


@pytest.mark.parametrize("sigma", [0, -1, (1 << 20) + 1])
def test_a_sigma_outside_its_range_is_refused(sigma: int) -> None:
    with raises("core.out_of_range", "sigma: expected 1 to 1048576"):
        discrete_gaussian(3, sigma)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 32 bytes, got 3"):
        discrete_gaussian(3, 1, key=b"abc")
    assert discrete_gaussian(0, 1).size == 0
