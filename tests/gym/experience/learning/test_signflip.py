"""The test of paired differences against what can be counted by hand."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.experience.learning import signflip
from zoo.gym.experience.learning.learn import compared
from zoo.gym.experience.learning.signflip import interval, sign_flip_p, tasks_needed, visible_effect


def counted(differences: list[float]) -> float:
    total = sum(differences)
    signs = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [sum(s * d for s, d in zip(sign, differences, strict=True)) for sign in signs]
    return sum(one >= total - 1e-12 for one in sums) / len(signs)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8))
def test_the_probability_is_that_of_all_choices_of_signs(differences: list[float]) -> None:
    expected = counted(differences) if sum(differences) > 0 else 1.0
    assert sign_flip_p(differences) == pytest.approx(expected)


def test_five_equal_gains_have_one_chance_in_32() -> None:
    assert sign_flip_p([0.5] * 5) == 1 / 32
    assert sign_flip_p([0.0] * 50) == 1.0
    assert sign_flip_p([]) == 1.0


def test_drawn_signs_agree_with_counted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    differences = [rng.choice([-0.5, 0.0, 0.5, 1.0]) for _ in range(24)]
    exact = sign_flip_p(differences)
    monkeypatch.setattr(signflip, "MOST_SUMS", 0)
    assert sign_flip_p(differences) == pytest.approx(exact, abs=0.02)


@pytest.mark.slow
def test_many_different_rewards_are_drawn_reproducibly() -> None:
    rng = random.Random(4)
    differences = [rng.gauss(0.3, 1) for _ in range(60)]
    assert sign_flip_p(differences) == sign_flip_p(differences) < 0.2


def test_all_plus_one_is_clear_and_all_zero_is_not() -> None:
    assert interval([1.0] * 30) == (1.0, 1.0)
    assert interval([0.0] * 30) == (0.0, 0.0)
    assert sign_flip_p([1.0] * 30) < 1e-8


def test_fewer_than_six_tasks_bound_nothing() -> None:
    for count in range(1, 6):
        assert interval([1.0] * count) == (-math.inf, math.inf)
    assert interval([1.0] * 8) == (1.0, 1.0)


def test_five_gains_prove_nothing_whatever_they_are() -> None:
    for gains in itertools.product([0.25, 0.5, 0.75, 1.0], repeat=5):
        assert interval(gains) == (-math.inf, math.inf)
        assert compared([(0.0, gain) for gain in gains], 0).verdict == "unproven"
    assert compared([(0.0, 0.5)] * 6, 0).verdict == "proven"  # p is 1 / 64


def test_a_proof_needs_the_exact_test_too() -> None:
    rng = random.Random(790)
    gains = [0.0] * 25 + [rng.choice([0.25, 0.5, 0.75, 1.0]) for _ in range(5)]
    rng.shuffle(gains)
    assert interval(gains)[0] > 0  # drawn: one more or less subset of 4,999
    assert sign_flip_p(gains) == 1 / 32
    assert compared([(0.0, gain) for gain in gains], 0).verdict == "unproven"


@pytest.mark.slow
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=6, max_size=8))
def test_the_interval_has_the_means_that_the_test_accepts(gains: list[float]) -> None:
    low, _ = interval(gains)
    assert counted([one - low - 1e-6 for one in gains]) > 0.025
    assert counted([one - low + 1e-6 for one in gains]) <= 0.025


@pytest.mark.slow
def test_drawn_signs_can_fall_below_a_small_level() -> None:
    rng = random.Random(6)
    differences = [rng.uniform(0.5, 1) for _ in range(40)]
    assert sign_flip_p(differences, 1e-4) <= 1e-4 < sign_flip_p(differences)


@pytest.mark.slow
def test_an_interval_covers_the_truth_nearly_always() -> None:
    rng = random.Random(5)
    hits = 0
    for _ in range(20):
        low, high = interval([rng.gauss(0.2, 1) for _ in range(30)])
        hits += low <= 0.2 <= high
    assert hits >= 16  # 19 expected of 20


def test_a_third_of_the_effect_needs_nine_times_the_tasks() -> None:
    one = tasks_needed([1.0, -1.0, 1.0, 1.0] * 5, 0.05)  # mean 0.5
    assert one is not None
    wide = [3 * d for d in [1.0, -1.0, 1.0, 1.0] * 5]
    third = tasks_needed([d - 1.0 for d in wide], 0.05)  # mean 0.5, three times the spread
    assert third == pytest.approx(9 * one, abs=9)
    assert tasks_needed([-0.1], 0.05) is None


def test_what_a_gate_sees_is_what_simulations_saw() -> None:
    # simulated with 100 tasks of 5 answers at level .05 / 9: +8 points with .92, +3 with .17
    assert 0.03 < visible_effect(100, 5, 0.05 / 9, 0.064) < 0.08


def test_the_interval_of_many_tasks_is_drawn_around_their_mean() -> None:
    low, high = interval([0.0, 1.0] * 50)
    assert 0.3 < low < 0.5 < high < 0.7
