"""The account of privacy against figures of another accountant."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.rounds.protocol.privacy import (
    LEAST_CLIP,
    LEAST_EPSILON,
    MOST_EPSILON,
    delta_of,
    epsilon_for,
    privacy_for,
    sigma_for,
    together,
)

DELTA = 1e-6
ORACLE = json.loads((Path(__file__).parent / "oracle" / "pld.json").read_text())
"""dp-accounting's privacy loss distributions; `oracle/make_pld.py` makes it."""


@pytest.mark.parametrize("row", ORACLE["sigmas"], ids=lambda row: f"{row['epsilon']}")
def test_noise_is_that_of_privacy_loss_distributions(row: dict[str, float]) -> None:
    assert sigma_for(row["epsilon"], row["delta"]) == pytest.approx(row["sigma"], rel=1e-3)


@pytest.mark.parametrize("row", ORACLE["rounds"], ids=lambda row: f"{row['rounds']}")
def test_rounds_add_up_to_what_privacy_loss_distributions_give(row: dict[str, float]) -> None:
    sigma = together([row["sigma"]] * int(row["rounds"]))
    assert epsilon_for(sigma, row["delta"]) == pytest.approx(row["epsilon"], rel=1e-3)


def test_the_table_covers_the_promises_that_are_taken() -> None:
    epsilons = {row["epsilon"] for row in ORACLE["sigmas"]}
    assert {min(epsilons), max(epsilons)} == {LEAST_EPSILON, MOST_EPSILON}
    figures = {(row["rounds"], round(row["epsilon"], 2)) for row in ORACLE["rounds"]}
    assert {(4, 2.12), (50, 8.89)} <= figures
    assert sigma_for(1.0, DELTA) == pytest.approx(4.225, abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (10.0, 1e-2)])
def test_whole_numbers_have_the_account_of_real_ones(epsilon: float, delta: float) -> None:
    """The exact delta of discrete Gaussians a clip apart, summed up (arXiv:2004.00010, thm. 7)."""
    sigma = sigma_for(epsilon, delta) * LEAST_CLIP
    x = np.arange(-int(12 * sigma), int(12 * sigma) + LEAST_CLIP)
    mass = np.exp(-np.square(x / sigma) / 2)
    mass /= mass.sum()
    there = np.concatenate([np.zeros(LEAST_CLIP), mass[:-LEAST_CLIP]])  # moved by a clip
    exact = np.maximum(0, there - np.exp(epsilon) * mass).sum()
    assert exact == pytest.approx(delta_of(sigma / LEAST_CLIP, epsilon), rel=1e-7)


@given(st.floats(0.1, 10.0), st.floats(1e-12, 1e-2))
def test_noise_keeps_its_promise_and_a_little_less_does_not(epsilon: float, delta: float) -> None:
    sigma = sigma_for(epsilon, delta)
    assert delta_of(sigma, epsilon) <= delta * (1 + 1e-9)
    assert delta_of(sigma * 0.999, epsilon) > delta
    assert epsilon_for(sigma, delta) == pytest.approx(epsilon, rel=1e-6)


def test_no_release_tells_nothing() -> None:
    assert together([]) == float("inf")
    assert epsilon_for(1e9, DELTA) < 1e-6


def test_the_noise_of_a_large_model_drowns_a_small_round() -> None:
    # LoRA of rank 16 on zen-eco has some 33 M values: 4.225 * sqrt(33e6) / 2 = 12,136
    privacy = privacy_for(1.0, DELTA, 1.0, "0" * 64, f"x25519:{'0' * 64}")
    assert privacy.noise_to_signal(33_000_000, 2) == pytest.approx(12_136, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (0.09, 1e-6), (10.1, 1e-6), (float("nan"), 1e-6)]
)
def test_a_useless_promise_is_refused(epsilon: float, delta: float) -> None:
    with raises("rounds.epsilon_range", r"epsilon: expected 0\.1 to 10"):
        sigma_for(epsilon, delta)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, float("nan")])
def test_a_delta_outside_its_range_is_refused(delta: float) -> None:
    with raises("rounds.delta_range"):
        sigma_for(1.0, delta)
