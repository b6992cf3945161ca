"""Points that add up."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.rounds.payouts.points import share_out

VALUES = st.dictionaries(
    st.text(min_size=1, max_size=3), st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=9
)


@pytest.mark.slow
@settings(max_examples=300)
@given(VALUES, st.integers(0, 10**12))
def test_points_add_up_to_the_pool_and_follow_the_values(
    values: dict[str, float], pool: int
) -> None:
    points = share_out(values, pool)
    paid = any(value > 0 for value in values.values())
    assert sum(points.values()) == (pool if paid else 0)
    for name, value in values.items():
        assert points[name] >= 0
        assert value > 0 or points[name] == 0
        assert all(points[name] >= points[other] for other in values if values[other] < value)


@given(VALUES, st.integers(1, 1000), st.randoms())
def test_the_order_of_names_changes_nothing(
    values: dict[str, float], pool: int, random: Random
) -> None:
    names = list(values)
    random.shuffle(names)
    assert share_out({name: values[name] for name in names}, pool) == share_out(values, pool)


def test_what_is_left_goes_to_the_largest_remainders() -> None:
    # 10 / 6 = 1.67, 3.33, 5: one point is left, and .67 is the largest remainder
    assert share_out({"a": 1, "b": 2, "c": 3}, 10) == {"a": 2, "b": 3, "c": 5}


def test_values_without_a_number_are_refused() -> None:
    with raises("rounds.not_finite") as caught:
        share_out({"a": float("nan")}, 10)
    assert caught.value.code == "rounds.not_finite"
    with raises("rounds.pool_negative") as caught:
        share_out({"a": 1.0}, -1)
    assert caught.value.code == "rounds.pool_negative"
