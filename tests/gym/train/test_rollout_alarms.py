"""Warnings about sampled answers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from zoo.gym.data.units import Example
from zoo.gym.rewards import Score
from zoo.gym.train.rollout_alarms import STEPS, RolloutAlarms
from zoo.gym.train.rollouts import Answer

PROMPT = Example(np.array([5]), np.zeros(1, np.bool_), "row", truncated=False)


def groups(*texts: str, rewards: Sequence[float]) -> tuple[list[list[Answer]], np.ndarray]:
    """Returns one group of these texts, and one of answers that vary in text and reward."""
    given = [
        Answer(PROMPT, [1] * len(text), text, truncated=False, score=Score(reward))
        for text, reward in zip(texts, rewards, strict=True)
    ]
    varied = [
        Answer(PROMPT, [1] * length, str(place), truncated=False, score=Score(reward))
        for place, (length, reward) in enumerate([(2, 0.0), (3, 1.0), (4, 0.0), (3, 0.5)])
    ]
    answers = [given, varied[: len(given)]]
    return answers, np.array([[one.score.value for one in group] for group in answers])


def warnings(steps: int, *texts: str, rewards: Sequence[float]) -> list[str]:
    alarms = RolloutAlarms()
    return [note for _ in range(steps) for note in alarms.look(*groups(*texts, rewards=rewards))]


def test_different_answers_with_different_rewards_are_no_alarm() -> None:
    assert warnings(30, "ab", "abc", "ba", "b", rewards=[0.0, 1.0, 1.0, 0.0]) == []


@pytest.mark.parametrize(
    ("texts", "rewards", "names"),
    [
        (["a", "b", "c", "d"], [0.0] * 4, ["equal rewards"]),
        (["a", "a", "a", "a"], [0.0] * 4, ["equal rewards", "one and the same answer"]),
        (["a", "a", "a", "a"], [1.0] * 4, ["equal rewards"]),
        (["a", "ab", "abc", "a" * 40], [1.0, 2.0, 3.0, 40.0], ["the length of answers"]),
    ],
    ids=["equal", "collapsed on a wrong answer", "all right", "by length"],
)
def test_an_alarm_is_emitted_once_after_ten_steps(
    texts: list[str], rewards: list[float], names: list[str]
) -> None:
    assert warnings(STEPS - 1, *texts, rewards=rewards) == []
    found = warnings(5 * STEPS, *texts, rewards=rewards)
    assert len(found) == len(names)
    assert all(name in note for name, note in zip(names, found, strict=True))


@pytest.mark.parametrize(("cut", "is_emitted"), [(1, False), (3, True)])
def test_answers_that_are_cut_too_often_are_an_alarm(cut: int, is_emitted: bool) -> None:
    answers, rewards = groups("ab", "abc", "ba", "b", rewards=[0.0, 1.0, 1.0, 0.0])
    answers[0] = [replace(each, truncated=i < cut) for i, each in enumerate(answers[0])]
    alarms = RolloutAlarms()
    notes = [note for _ in range(STEPS) for note in alarms.look(answers, rewards)]
    assert ["are cut at" in note for note in notes] == [True] * is_emitted


def test_missing_rewards_count_nowhere() -> None:
    assert warnings(30, "ab", "abc", "ba", "b", rewards=[np.nan, 1.0, 0.0, np.nan]) == []
    assert warnings(30, "a", "b", rewards=[np.nan, np.nan])  # equal, and no error
