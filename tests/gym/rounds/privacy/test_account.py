"""The account of privacy against figures of another accountant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.errors import InputError
from zoo.gym.rounds.privacy.account import (
    delta_of,
    epsilon_for,
    noise_to_signal,
    sigma_for,
    together,
)

DELTA = 1e-6

# sigma by dp-accounting 0.6.0's privacy loss distributions, one release, delta 1e-6
PLD = {0.1: 36.3, 0.5: 8.06, 1.0: 4.225, 2.0: 2.23, 4.0: 1.19, 8.0: 0.653, 10.0: 0.541}


@pytest.mark.parametrize("epsilon", PLD)
def test_noise_is_that_of_privacy_loss_distributions(epsilon: float) -> None:
    digits = 5e-4 if epsilon == 1.0 else 5e-3  # as many as the figures have
    assert sigma_for(epsilon, DELTA) == pytest.approx(PLD[epsilon], rel=digits)


@pytest.mark.parametrize(("rounds", "epsilon"), [(2, 1.45), (4, 2.12), (10, 3.52), (50, 8.89)])
def test_rounds_add_up_to_what_privacy_loss_distributions_give(rounds: int, epsilon: float) -> None:
    sigma = together([sigma_for(1.0, DELTA)] * rounds)
    assert epsilon_for(sigma, DELTA) == pytest.approx(epsilon, abs=5e-3)


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
    assert noise_to_signal(sigma_for(1.0, DELTA), 33_000_000, 2) == pytest.approx(12_136, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (0.09, 1e-6), (10.1, 1e-6), (float("nan"), 1e-6)]
)
def test_a_useless_promise_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InputError, match=r"epsilon: expected 0\.1 to 10"):
        sigma_for(epsilon, delta)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, float("nan")])
def test_a_delta_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="delta: expected a number between 0 and 1"):
        sigma_for(1.0, delta)
