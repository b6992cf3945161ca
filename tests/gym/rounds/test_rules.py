"""Rules on contributions small enough to check by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.codes import raises
from zoo.gym.errors import InputError
from zoo.gym.rounds.encodings import Contributions, Floats
from zoo.gym.rounds.rules.aggregate import combine, select
from zoo.gym.rounds.rules.method import AggregationMethod, Rule, default_f, takes_f, takes_given

Method = AggregationMethod


def on_a_line(*places: float) -> Floats:
    """Contributions of one column."""
    return Floats({"w": [np.array([place], np.float32) for place in places]})


def of(rows: NDArray[np.float32]) -> Floats:
    return Floats({"w": list(rows)})


def result(
    rule: Rule, contributions: Contributions, given: NDArray[np.float32] | None = None
) -> list[float]:
    selection = select(rule, contributions, given, threads=1)
    pieces = combine(selection, contributions, threads=1)
    return [value for piece in pieces for value in piece.values.tolist()]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # of 0 1 3 5 100: sums of squares to the two nearest are 10, 5, 8, 20 and 18,434
        (Rule(Method.MEAN), 21.8),
        (Rule(Method.KRUM, 1), 1),
        (Rule(Method.MULTI_KRUM, 1), 2.25),
        (Rule(Method.MEDIAN, 2), 3),
        (Rule(Method.TRIMMED_MEAN, 1), 3),
        # the norms' median is 3: 0 1 3 3 3
        (Rule(Method.NORM_CLIP), 2),
        # without f Bulyan takes all of them, and keeps all around the median
        (Rule(Method.BULYAN), 21.8),
        # four nearest of each: means 2.25 of the first four, 27.25 of the last
        (Rule(Method.BYZANTINE_ROBUST, 1), 2.25),
    ],
    ids=lambda value: str(value.method.value) if isinstance(value, Rule) else "",
)
def test_a_rule_by_hand(rule: Rule, expected: float) -> None:
    assert result(rule, on_a_line(0, 1, 3, 5, 100)) == [pytest.approx(expected, rel=1e-6)]


def test_bulyan_drops_what_lies_far_from_the_median() -> None:
    # with f = 1 it takes 0 1 3 4 9, and keeps the three nearest to their median 3: 1 3 4
    found = result(Rule(Method.BULYAN, 1), on_a_line(0, 1, 3, 4, 9, 20, 100))
    assert found == [pytest.approx(8 / 3)]


def test_the_geometric_median_of_most_on_one_place_is_that_place() -> None:
    found = result(Rule(Method.GEOMETRIC_MEDIAN, 1), on_a_line(2, 2, 2, 50))
    assert found == [pytest.approx(2, abs=0.01)]


def test_examples_and_reputations_weigh() -> None:
    given_weights = np.array([1, 3], np.float32)
    for method in (Method.FEDERATED_AVERAGE, Method.WEIGHTED_MEAN):
        assert result(Rule(method), on_a_line(0, 4), given_weights) == [3]


def test_weights_of_the_default_are_integers_that_add_up() -> None:
    rows = np.random.default_rng(0).standard_normal((11, 30), np.float32)
    weighing = select(Rule(Method.BYZANTINE_ROBUST, 3), of(rows)).weighing
    assert weighing is not None
    assert weighing.weights.sum() == (11 - 3) * (11 - 3)
    assert weighing.weights.tolist() == [int(weight) for weight in weighing.weights]


UNTIED = [m for m in Method if m not in {Method.MAJORITY, Method.BULYAN}]
"""Two that are left to Bulyan are each other's nearest: a tie, which goes to the first digest."""


@pytest.mark.parametrize("method", UNTIED)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_order_of_contributors_changes_nothing_but_rounding(method: Method, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, order = rng.standard_normal((11, 20), np.float32), rng.permutation(11)
    numbers = rng.integers(1, 9, 11).astype(np.float32) if takes_given(method) else None
    rule = Rule(method, 2 if takes_f(method) else 0)
    first = result(rule, of(rows), numbers)
    again = result(rule, of(rows[order]), None if numbers is None else numbers[order])
    np.testing.assert_allclose(again, first, rtol=1e-5, atol=1e-6)


def direct_krum_order(rows: NDArray[np.float64], f: int) -> Sequence[int]:
    apart = ((rows[:, None] - rows) ** 2).sum(axis=2)
    scores = np.sort(apart, axis=1)[:, 1 : len(rows) - f - 1].sum(axis=1)
    order: list[int] = np.argsort(scores, kind="stable").tolist()
    return order


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_default_agrees_with_its_direct_form(seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((10, 50), np.float32)
    wide = rows.astype(np.float64)
    apart = ((wide[:, None] - wide) ** 2).sum(axis=2)
    near = np.argsort(apart, axis=1, kind="stable")[:, :7]
    mixed = wide[near].mean(axis=1)
    expected = mixed[list(direct_krum_order(mixed, 3)[:7])].mean(axis=0)
    found = result(Rule(Method.BYZANTINE_ROBUST, 3), of(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), huge=st.sampled_from([1.0, 100.0, 1e6]))
def test_a_trimmed_mean_stays_within_the_honest_range(seed: int, huge: float) -> None:
    rows = np.random.default_rng(seed).standard_normal((9, 30), np.float32)
    rows[:2] *= huge
    found = np.array(result(Rule(Method.TRIMMED_MEAN, 2), of(rows)))
    assert np.all((found >= rows[2:].min(axis=0)) & (found <= rows[2:].max(axis=0)))


def test_norm_far_above_the_median_counts_as_one_liar() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 30), np.float32)
    rows[4] *= 1000
    selection = select(Rule(Method.BYZANTINE_ROBUST, 2), of(rows))
    assert selection.refused == {4: "its norm is more than 256 times the median"}
    assert (selection.rule.f, len(selection.kept)) == (1, 8)


@pytest.mark.parametrize(("n", "f"), [(2, 0), (3, 0), (4, 0), (5, 1), (10, 3), (50, 15)])
def test_a_round_withstands_three_tenths_if_krum_can(n: int, f: int) -> None:
    assert default_f(n) == f


@pytest.mark.parametrize(
    ("rule", "n", "message"),
    [
        (Rule(Method.KRUM, 2), 6, r"expected at least 2 f \+ 3 = 7 contributors, got 6"),
        (Rule(Method.BULYAN, 3), 10, r"expected at least 4 f \+ 3 = 15 contributors, got 10"),
        (Rule(Method.MEDIAN, 2), 4, r"expected at least 2 f \+ 1 = 5 contributors, got 4"),
        (Rule(Method.BYZANTINE_ROBUST), 2, r"2 f \+ 3 = 3 contributors, got 2"),
        (Rule(Method.MEAN, 1), 9, "f: expected 0 for mean, got 1"),
        (Rule(Method.KRUM, -1), 9, "f: expected at least 0, got -1"),
    ],
)
def test_an_impossible_rule_is_refused(rule: Rule, n: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rule.check(n)


def test_weights_that_a_rule_does_not_take_are_refused() -> None:
    numbers = np.ones(5, np.float32)
    with raises("rounds.weights_unused", "weights: expected none for krum, got 5"):
        select(Rule(Method.KRUM, 1), on_a_line(1, 2, 3, 4, 5), numbers)
    with raises("rounds.weights_missing", "expected the reputations of 5 contributors, got none"):
        select(Rule(Method.WEIGHTED_MEAN), on_a_line(1, 2, 3, 4, 5))
    with raises("rounds.weights_count", "numbers of examples: expected 4, got 5"):
        select(Rule(Method.FEDERATED_AVERAGE), on_a_line(1, 2, 3, 4), numbers)
    with raises("rounds.other_form", "expected contributions in the form signs"):
        select(Rule(Method.MAJORITY), on_a_line(1, 2, 3))
