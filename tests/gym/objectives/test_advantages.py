"""Advantages of groups, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.objectives.advantages import group_advantages, leave_one_out, without_spread

NAN = float("nan")


def test_the_mean_of_the_group_is_subtracted() -> None:
    # mean 3/5; the published example with normalize_advantages=False
    found = group_advantages(np.array([[1.0, 0.0, 1.0, 0.0, 1.0]]), "none")
    assert found[0] == pytest.approx([0.4, -0.6, 0.4, -0.6, 0.4])


def test_a_group_is_divided_by_its_standard_deviation_with_bessels_correction() -> None:
    # mean 2, squares 1 + 0 + 1, / (3 - 1) = 1
    found = group_advantages(np.array([[1.0, 2.0, 3.0]]), "group")
    assert found[0] == pytest.approx([-1 / 1.0001, 0, 1 / 1.0001])


def test_a_batch_is_divided_by_the_standard_deviation_of_all_rewards() -> None:
    # means 1 and 5; all: mean 3, squares 9 + 1 + 1 + 9 = 20, / 3
    std = (20 / 3) ** 0.5 + 1e-4
    found = group_advantages(np.array([[0.0, 2.0], [4.0, 6.0]]), "batch")
    assert found == pytest.approx(np.array([[-1, 1], [-1, 1]]) / std)


def test_a_missing_reward_counts_nowhere_and_has_no_advantage() -> None:
    found = group_advantages(np.array([[1.0, NAN, 3.0]]), "none")
    assert found[0].tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_a_group_without_rewards_has_no_advantages(scale: str) -> None:
    found = group_advantages(np.array([[NAN, NAN]]), scale)  # type: ignore[arg-type]
    assert found[0].tolist() == [0.0, 0.0]


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(-99, 99), min_size=4, max_size=4), min_size=1, max_size=5),
    st.sampled_from(["group", "batch", "none"]),
)
def test_the_advantages_of_a_group_sum_to_zero(rows: list[list[int]], scale: str) -> None:
    found = group_advantages(np.array(rows, dtype=float), scale)  # type: ignore[arg-type]
    assert np.abs(found.sum(1)).max() < 1e-9 * max(1, np.abs(found).max()) * 4


def test_the_baseline_of_rloo_leaves_the_answer_out() -> None:
    # the others' means: (2 + 6) / 2, (1 + 6) / 2, (1 + 2) / 2
    found = leave_one_out(np.array([[1.0, 2.0, 6.0], [1.0, NAN, 6.0], [1.0, NAN, NAN]]))
    assert found.tolist() == [[-3.0, -1.5, 4.5], [-5.0, 0.0, 5.0], [0.0, 0.0, 0.0]]


def test_a_group_without_spread_is_found_whatever_is_missing() -> None:
    rows = [[1.0, 1.0, 1.0], [1.0, NAN, 1.0], [1.0, NAN, 0.0], [NAN, NAN, NAN], [1.0, NAN, NAN]]
    assert without_spread(np.array(rows)).tolist() == [True, True, False, True, True]
