"""Scores of answers: shares from 0 to 1, whatever the range of the reward."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.gym.evaluate.conftest import write_rows
from zoo.gym.config.rollouts import LIVE_REWARD
from zoo.gym.evaluate import grading
from zoo.gym.evaluate.grading import by_reward, by_text
from zoo.gym.evaluate.held_out import Rows, _reward_of
from zoo.gym.evaluate.items import Item, Measure
from zoo.gym.evaluate.results import compare, result_of
from zoo.gym.rewards import Score, Task

LENGTH = {"most": 6, "margin": 2, "unit": "words"}
ANSWERS = ("5", "6", "I think that it may be 6")
"""A right one, a wrong one, and a wrong one that is too long."""


@pytest.mark.parametrize(
    ("spec", "scores"),
    [
        ("numeric", [1, 0, 0]),
        ({"numeric": 2, "length": LENGTH}, [1, 1 / 3, 0]),  # 2, 0 and -1 of -1 to 2
        ({"numeric": {"weight": 2}}, [1, 0, 0]),
        ({"length": LENGTH}, [1, 1, 0]),
    ],
)
def test_a_score_is_a_share_of_the_range_of_the_reward(spec: Any, scores: list[float]) -> None:
    items = [Item(1, Task((), "5"))] * 3
    assert by_reward(spec)(items, [{"answer": each} for each in ANSWERS]) == pytest.approx(scores)


def measured(scores: list[float]) -> Any:
    """Returns a result of rows with these scores."""
    items = tuple(Item(number, Task(())) for number in range(len(scores)))
    measure = Measure("a", "a", items, "generate", lambda *_: scores, "", "")
    return result_of("a", measure, [{"answer": str(each)} for each in scores], "")


def test_an_answer_without_a_score_is_wrong_and_counted() -> None:
    result = measured([1.0, math.nan])
    assert (result.estimate.value, result.unscored) == (0.5, 1)


def test_a_reward_that_is_not_a_number_stays_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            """Ends nothing."""

        def score(self, samples: list[object]) -> list[Score]:
            return [Score(math.nan) for _ in samples]

    monkeypatch.setattr(grading, "load", lambda *_: Failing())
    (score,) = by_reward("numeric")([Item(1, Task(()))], [{"answer": "5"}])
    assert math.isnan(score)


def test_a_row_that_could_not_be_asked_is_wrong_whatever_the_grade() -> None:
    grade = by_text(lambda _, __: True)
    assert grade([Item(1, Task(()))] * 2, [{"error": "too long"}, {"answer": ""}]) == [0.0, 1.0]


def test_a_worse_model_is_worse_by_a_number_above_0() -> None:
    sentence = compare(measured([1.0] * 50), measured([0.0] * 50)).sentence()
    # -50/52 less and more 1.96 sqrt((51/52 - (50/52)^2) / 52), at least -1
    assert sentence == "worse by 100.0 points, 95 % 89.7 to 100.0; proven"


@pytest.mark.parametrize(
    ("reward", "spec"),
    [
        ("numeric", "numeric"),
        ("numeric,format", "numeric,format"),
        (LIVE_REWARD, None),
        ([{"kind": "judge", "model": "zen-pico"}, "numeric"], None),
        (None, None),
    ],
)
def test_a_runs_reward_grades_its_rows_unless_it_is_a_model(reward: Any, spec: Any) -> None:
    class Config:
        pass

    config: Any = Config()
    config.reward = reward
    assert _reward_of(config) == spec


def test_a_report_says_how_a_range_is_read(tmp_path: Path) -> None:
    from zoo.gym.data import read_dataset

    path = write_rows(tmp_path / "my.jsonl", [{"prompt": "2 + 3 =", "answer": 5}])
    records = read_dataset([path], kinds={"prompt"}).records
    rows = Rows("my", "my", "", records, None, 4, {"numeric": 2, "length": LENGTH})
    (measure,) = rows.measures()
    assert measure.graded_by.endswith("; -1 counts as 0 %, 2 as 100 %")
