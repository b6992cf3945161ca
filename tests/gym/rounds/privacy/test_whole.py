"""Whole numbers: nothing grows on the way, and no norm exceeds the clip."""

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tests.codes import raises
from zoo.gym.rounds.privacy.contribution import clip_steps, square_norm, to_steps

STEPS = arrays(np.int64, st.integers(0, 40), elements=st.integers(-(2**31), 2**31 - 1))
FLOATS = arrays(np.float32, 8, elements=st.floats(-(2.0**18), 2.0**18, width=32))


def exact(steps: NDArray[np.int64]) -> int:
    return sum(int(step) ** 2 for step in steps)


@pytest.mark.slow
@given(STEPS)
def test_squares_add_up_exactly(steps: NDArray[np.int64]) -> None:
    assert square_norm(steps) == exact(steps)


@pytest.mark.slow
@given(STEPS, st.integers(1, 2**30))
def test_a_clipped_norm_is_at_most_the_clip_and_no_entry_grows(
    steps: NDArray[np.int64], most: int
) -> None:
    found = clip_steps(steps, most)
    assert exact(found) <= most * most
    assert np.all(np.abs(found) <= np.abs(steps))
    assert np.all(found * np.sign(steps) >= 0)
    if exact(steps) <= most * most:
        assert found is steps


@pytest.mark.slow
@given(STEPS, st.integers(1, 2**20))
def test_clipping_cuts_towards_zero_by_one_step_at_most(
    steps: NDArray[np.int64], most: int
) -> None:
    found, square = clip_steps(steps, most), exact(steps)
    if square > most * most:
        share = Fraction(most, isqrt(square - 1) + 1)
        for before, after in zip(steps.tolist(), found.tolist(), strict=True):
            assert 0 <= abs(before) * share - abs(after) < 1


@pytest.mark.slow
@given(STEPS, st.integers(1, 2**20))
def test_clipping_twice_is_clipping_once(steps: NDArray[np.int64], most: int) -> None:
    once = clip_steps(steps, most)
    assert clip_steps(once, most).tolist() == once.tolist()


def test_a_clip_that_rounds_to_nearest_would_be_too_long() -> None:
    steps = np.full(4, 3, np.int64)  # norm 6; to 3: 1.5 each, rounded 2 each is a norm of 4
    assert clip_steps(steps, 3).tolist() == [1, 1, 1, 1]


@pytest.mark.slow
@given(FLOATS, st.integers(0, 12))
def test_values_are_cut_towards_zero(values: NDArray[Any], exponent: int) -> None:
    scale = 1 << exponent
    for value, step in zip(values.tolist(), to_steps(values, scale, 1.0).tolist(), strict=True):
        assert step == int(Fraction(value) * scale)  # int() cuts towards zero


def test_values_far_above_the_clip_keep_their_direction() -> None:
    values = np.array([3e30, -4e30], np.float32)
    steps = clip_steps(to_steps(values, 1 << 20, 1.0), 1 << 20)
    assert steps / 2**20 == pytest.approx([0.6, -0.8], rel=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with raises("rounds.not_finite") as caught:
        to_steps(np.array([0.0, bad], np.float32), 1, 1.0)
    assert caught.value.code == "rounds.not_finite"


def test_steps_beyond_the_file_format_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="fewer than 2"):
        square_norm(np.array([1 << 32]))
