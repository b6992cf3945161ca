"""Which rows each step learns from."""

from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.measure.rows import spread
from zoo.gym.train.order import key_of, rows_of_step


@given(rows=st.integers(1, 40), per_step=st.integers(1, 50), seed=st.integers(0, 2**40))
def test_every_row_is_seen_once_an_epoch(rows: int, per_step: int, seed: int) -> None:
    seen: list[int] = []
    step = 1
    while len(seen) < 2 * rows:
        seen += rows_of_step(range(rows), step, per_step, seed)
        step += 1
    assert sorted(seen[:rows]) == list(range(rows))
    assert sorted(seen[rows : 2 * rows]) == list(range(rows))


def test_two_epochs_differ_in_order() -> None:
    first, second = (rows_of_step(range(50), step, 50, 42) for step in (1, 2))
    assert first != second


def test_a_step_does_not_depend_on_the_steps_before_it() -> None:
    alone = rows_of_step(range(10), 7, 3, 42)
    for step in range(1, 7):
        rows_of_step(range(10), step, 3, 42)
    assert rows_of_step(range(10), 7, 3, 42) == alone


@given(rows=st.integers(1, 100), count=st.integers(1, 120))
def test_a_subset_is_spread_over_all_rows_without_repeats(rows: int, count: int) -> None:
    chosen = spread(range(rows), count)
    assert len(chosen) == min(rows, count)
    assert sorted(set(chosen)) == chosen


def test_keys_differ_by_step_and_micro_batch_and_fit_in_63_bits() -> None:
    keys = {key_of(42, step, place) for step in range(20) for place in range(20)}
    assert len(keys) == 400
    assert all(0 <= key < 2**63 for key in keys)
