"""A preference method doubts a gain that makes better answers unlikely."""

import pytest

from zoo.gym.train.method import Evaluation
from zoo.gym.train.methods.dpo import DirectPreference
from zoo.gym.train.methods.preference import FALLEN
from zoo.gym.train.methods.rm import RewardModelling


def doubts(kind: type[DirectPreference], *pairs: tuple[float, float]) -> list[int]:
    """Returns the evaluations with a doubt, of (accuracy, chosen_reward) each; the first is 0."""
    method = kind.__new__(kind)
    before = {"accuracy": 0.0, "margin": 0.0, "chosen_reward": 0.0}
    seen = [before, *({"accuracy": a, "margin": 1.0, "chosen_reward": c} for a, c in pairs)]
    found = [method.doubt(Evaluation(0.6, 10, metrics)) for metrics in seen]
    return [place for place, doubt in enumerate(found) if doubt is not None]


@pytest.mark.parametrize(
    ("pairs", "places"),
    [
        ([(0.5, -1.0)] * (FALLEN + 2), [FALLEN]),  # once
        ([(0.4, -1.0)] * (FALLEN - 1) + [(0.6, -1.0)] * 5, []),  # more pairs are right
        ([(0.5, 0.1)] * 5, []),
        ([(0.5, -1.0), (0.7, -1.0)] * 4, []),
    ],
)
def test_better_answers_that_fall_without_more_pairs_right_are_reported(
    pairs: list[tuple[float, float]], places: list[int]
) -> None:
    assert doubts(DirectPreference, *pairs) == places


def test_a_reward_model_has_no_likelihoods() -> None:
    assert RewardModelling.has_likelihoods is False
