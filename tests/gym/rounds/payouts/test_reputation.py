"""Reputation rises slowly and falls fast."""

import pytest

from tests.codes import raises
from zoo.gym.rounds.payouts.reputation import Reputation


def test_it_rises_by_a_tenth_and_falls_by_half_of_the_way() -> None:
    assert Reputation(0.5).after(1.0).value == pytest.approx(0.55)
    assert Reputation(0.5).after(0.0).value == 0.25


def test_it_cannot_be_bought_back_by_the_next_round() -> None:
    fallen = Reputation(0.8).after(0.0).after(1.0)
    assert fallen.value == pytest.approx(0.46)  # .8 * .5 = .4, + .1 * .6


def test_a_round_without_quality_is_none_that_accepted_it() -> None:
    assert Reputation(0.5, 2).after(0.0) == Reputation(0.25, 2)
    assert Reputation(0.5, 2).after(1e-9).accepted == 3


@pytest.mark.parametrize("quality", [-0.1, 1.1, float("nan")])
def test_a_quality_outside_its_range_is_refused(quality: float) -> None:
    with raises("rounds.quality_range"):
        Reputation().after(quality)
