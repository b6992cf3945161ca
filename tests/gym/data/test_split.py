"""The held-out share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.data.records import Record
from zoo.gym.data.split import split_records
from zoo.gym.errors import InputError


def rows(count: int) -> list[Record]:
    return [Record(f"f:{n}", "completion", prompt=str(n), completion="x") for n in range(count)]


@given(st.integers(0, 60), st.floats(0, 0.99))
def test_the_parts_put_together_are_the_rows_in_order(count: int, val_size: float) -> None:
    learned, held_out = split_records(rows(count), val_size)
    assert [*learned, *held_out] == rows(count)


@given(st.integers(2, 60), st.floats(0.001, 0.99))
def test_a_share_leaves_a_row_on_each_side(count: int, val_size: float) -> None:
    assert all(split_records(rows(count), val_size))


@pytest.mark.parametrize(
    ("count", "val_size", "held_out"),
    [(168, 0.1, 17), (100, 0.1, 10), (5, 0.1, 1), (10, 3, 3), (10, 0, 0), (1, 0.1, 0)],
)
def test_the_last_rows_are_held_out(count: int, val_size: float, held_out: int) -> None:
    assert list(split_records(rows(count), val_size)[1]) == rows(count)[count - held_out :]


@pytest.mark.parametrize("val_size", [-0.1, 10, 11, 2.5, float("nan")])
def test_a_size_that_leaves_nothing_or_means_nothing_is_refused(val_size: float) -> None:
    with pytest.raises(InputError, match="val_size: expected"):
        split_records(rows(10), val_size)


def test_a_lone_text_is_cut_at_the_end_of_a_line() -> None:
    text = "".join(f"line {n}\n" for n in range(10))  # ten lines of seven characters
    (learned,), (held_out,) = split_records([Record("f:1", "text", text=text)], 0.1)
    assert (learned.text, held_out.text) == (text[:63], "line 9\n")
