"""The bound that decides what counts."""

from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from zoo.gym.rounds.protocol.records import Paired, below, paired, student_95

LOSSES = st.lists(st.floats(0, 20), min_size=10, max_size=40)


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(9, 1.833113), (19, 1.729133), (99, 1.660391), (999, 1.646380), (10**8, 1.644854)],
)
def test_the_quantile_is_the_one_of_the_tables(degrees: int, quantile: float) -> None:
    assert student_95(degrees) == pytest.approx(quantile, abs=1e-5)


def test_the_bound_of_ten_rows_is_the_one_worked_out_by_hand() -> None:
    # differences -1 and 0, five each: mean -.5, deviation sqrt(10 * .25 / 9) = .52705,
    # bound -.5 + 1.83311 * .52705 / sqrt(10) = -.19448
    found = paired([1.0] * 10, [0.0] * 5 + [1.0] * 5)
    assert (found.rows, found.mean) == (10, -0.5)
    assert found.deviation == pytest.approx(0.52705, abs=1e-5)
    assert found.bound == pytest.approx(-0.19448, abs=1e-5)


@given(LOSSES)
def test_no_change_adds_nothing_in_any_order_of_rows(losses: list[float]) -> None:
    assert paired(losses, losses).bound == 0.0
    after = [loss / 2 for loss in losses]
    assert paired(losses, after) == paired(losses[::-1], after[::-1])
    added = [new - old for old, new in zip(losses, after, strict=True)]
    assert paired(losses, after).deviation == pytest.approx(stdev(added), abs=1e-9)


@pytest.mark.parametrize("mean", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_refused(mean: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Paired(rows=10, mean=mean, deviation=0.0)
    with pytest.raises(ValidationError):
        Paired(rows=9, mean=0.0, deviation=0.0)


def test_added_loss_reads_as_below_or_above() -> None:
    assert [below(added) for added in (-8.09, 0.0, 0.5)] == [
        "8.0900 nats below",
        "0.0000 nats below",
        "0.5000 nats above",
    ]
