"""What stands for known answers is read from the reward, however it is written."""

import pytest

from zoo.gym.errors import InputError
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.session import labels_of, load_reward
from zoo.gym.experience.settings import LIVE, ExperienceConfig


@pytest.mark.parametrize(
    ("reward", "labels"),
    [
        ("auto", ""),
        ("exact", ""),
        ("my.py:score", ""),
        (LIVE, ""),
        ("majority", "majority"),
        ("{judge: {model: zen-pico}}", "judge"),
        ("[exact, {kind: judge, model: zen-pico, weight: 0.2}]", "judge"),
        ("org/reward-model", "model"),
    ],
)
def test_a_judge_and_a_majority_are_marked(reward: str, labels: str) -> None:
    assert labels_of(ExperienceConfig(model="m", reward=reward)) == labels


def test_a_majority_is_refused_where_no_labels_are_drawn() -> None:
    config = ExperienceConfig(model="m", reward="majority")
    with pytest.raises(InputError, match="expected another one than majority"):
        load_reward(config, Split(()))
    with load_reward(config, Split(()), labels=True) as reward:
        assert reward.name == "answer"
