"""What stands for known answers is read from the reward, however it is written."""

from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.data.records import Message
from zoo.gym.experience.learning.majority import DESCRIPTION
from zoo.gym.experience.learning.split import Split
from zoo.gym.experience.rewards import load_reward
from zoo.gym.experience.settings import LIVE, ExperienceConfig
from zoo.gym.experience.start import prepare
from zoo.gym.rewards.reward import Task


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
    marks = ExperienceConfig(model="m", reward=reward).marks
    assert marks.get("labels", "") == labels


def test_the_first_unanswered_task_is_the_first_in_the_file() -> None:
    turns = (Message("user", "?"),)
    rows = tuple(Task(turns, None, "", {}, f"no.jsonl:{line}") for line in (55, 10, 9, 70))
    with raises("rewards.no_answers", r"4 of 4 rows have none, first no.jsonl:9\b") as found:
        load_reward(ExperienceConfig(model="m"), Split(rows, (), ()))
    assert "majority" in (found.value.hint or "")
    assert "judge" in (found.value.hint or "")


def test_a_judge_without_a_model_is_told_how_to_get_one() -> None:
    with raises("config.bad_reward", "model: not given") as caught:
        load_reward(ExperienceConfig(model="m", reward="judge"), Split((), (), ()))
    assert caught.value.hint == "{kind: judge, model: MODEL}"


def test_the_list_of_rewards_names_the_majority() -> None:
    with raises("config.bad_reward", "exat") as found:
        load_reward(ExperienceConfig(model="m", reward="exat"), Split((), (), ()))
    assert "majority" in (found.value.hint or "")


def test_the_majority_is_described_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    tasks = [Task((Message("user", str(i)),), None, "", {}, f"a:{i}") for i in range(50)]
    model = "http://127.0.0.1:9/v1#m"
    config = ExperienceConfig(model=model, reward="majority", name="n", max_tokens=9)
    assert prepare(config, tasks).reward == DESCRIPTION


def test_a_majority_is_refused_where_no_labels_are_drawn() -> None:
    config = ExperienceConfig(model="m", reward="majority")
    with raises("experience.majority_reward") as caught:
        load_reward(config, Split(()))
    assert caught.value.code == "experience.majority_reward"
    with load_reward(config, Split(()), labels=True) as reward:
        assert reward.name == "answer"
