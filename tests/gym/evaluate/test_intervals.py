"""Intervals cover the truth as often as they say."""

from random import Random

import pytest

from zoo.gym.evaluate.intervals import difference_of_losses, difference_of_scores, mean_of, student

PAIRS = 4000
"""Simulated pairs of sources."""


@pytest.mark.parametrize(
    ("rows", "gained", "lost"),
    [(40, 0.2, 0.1), (100, 0.15, 0.1), (100, 0.3, 0.3), (250, 0.12, 0.08)],
)
def test_differences_of_scores_are_covered(rows: int, gained: float, lost: float) -> None:
    draw, covered = Random(1), 0
    for _ in range(PAIRS):
        kinds = [draw.random() for _ in range(rows)]
        first = [float(not kind < gained) for kind in kinds]
        second = [float(not gained <= kind < gained + lost) for kind in kinds]
        estimate = difference_of_scores(first, second)
        covered += estimate.low <= gained - lost <= estimate.high
    assert 0.935 <= covered / PAIRS <= 0.965


def test_differences_of_losses_are_covered() -> None:
    draw, covered = Random(1), 0
    for _ in range(PAIRS):
        first = [draw.gauss(2, 1) for _ in range(30)]
        second = [loss + draw.gauss(0.1, 0.3) for loss in first]
        estimate = difference_of_losses(first, second)
        covered += estimate.low <= 0.1 <= estimate.high
    assert 0.935 <= covered / PAIRS <= 0.965


def test_equal_answers_leave_a_width() -> None:
    estimate = difference_of_scores([1.0, 0.0] * 10, [1.0, 0.0] * 10)
    assert estimate.value == 0
    assert estimate.low < -0.05 < 0.05 < estimate.high
    assert not estimate.is_proven


def test_few_losses_have_no_interval() -> None:
    assert student(2) == float("inf")
    assert not difference_of_losses([1.0, 1.0], [0.5, 0.5]).is_proven
    assert mean_of([0.5]).low == float("-inf")


def test_the_quantiles_are_those_of_students_distribution() -> None:
    tables = {5: 2.571, 10: 2.228, 30: 2.042}  # 97.5 %
    for degrees, quantile in tables.items():
        assert abs(student(degrees) - quantile) < 0.004


def test_a_loss_that_falls_in_all_rows_is_proven() -> None:
    before = [2.0, 2.1, 2.2, 2.3, 2.4]
    after = [loss - 1 - 0.01 * number for number, loss in enumerate(before)]
    assert difference_of_losses(before, after).is_proven
    assert difference_of_losses(after, before).is_proven


def test_shares_have_wilsons_interval() -> None:
    estimate = mean_of([1.0] * 57 + [0.0] * 3)
    assert (round(estimate.low, 3), round(estimate.high, 3)) == (0.863, 0.983)
