import math
from typing import Any

import pytest

from zoo.gym.jobs.figures import Figures, csv_lines, figures_in, figures_of, series


def step(number: int, loss: float | None = 1.0, **more: Any) -> dict[str, Any]:
    return {"kind": "step", "t": 5.0, "step": number, "loss": loss, "lr": 0.5, **more}


def evaluation(number: int, loss: float) -> dict[str, Any]:
    return {"kind": "eval", "t": 6.0, "step": number, "loss": loss, "tokens": 9}


def test_a_step_has_its_loss_and_the_metrics_of_its_method() -> None:
    event = step(3, metrics={"reward": 0.25}, skipped=False)
    values = {"train/loss": 1.0, "train/learning_rate": 0.5, "train/reward": 0.25}
    assert figures_of(event) == Figures(3, 5.0, values)


def test_an_evaluation_has_figures_of_its_own() -> None:
    event = evaluation(4, 2.0) | {"metrics": {"accuracy": 0.5}}
    assert figures_of(event) == Figures(4, 6.0, {"eval/loss": 2.0, "eval/accuracy": 0.5})


@pytest.mark.parametrize("loss", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_left_out(loss: float | None) -> None:
    assert figures_of(step(3, loss)) == Figures(3, 5.0, {"train/learning_rate": 0.5})
    assert figures_of({"kind": "warn", "t": 1.0, "message": "hot"}) is None


def test_steps_that_are_trained_again_replace_those_before() -> None:
    log = [step(1, 9), step(2, 8), evaluation(2, 7), step(3, 6), step(2, 5), evaluation(2, 4)]
    points = series(figures_in(log))
    assert points["train/loss"] == [(1, 9), (2, 5)]
    assert points["eval/loss"] == [(2, 4)]


def test_the_last_step_that_is_trained_again_counts_once() -> None:
    points = series(figures_in([step(1, 9), step(2, 8), step(2, 5)]))
    assert points["train/loss"] == [(1, 9), (2, 5)]


def test_the_evaluation_before_training_counts_once() -> None:
    log = [evaluation(0, 9), evaluation(0, 9), step(1, 8)]
    assert series(figures_in(log))["eval/loss"] == [(0, 9)]


def test_a_table_has_a_line_a_step_and_an_empty_cell_without_a_figure() -> None:
    lines = list(csv_lines(figures_in([evaluation(0, 9), step(1, 8), evaluation(1, 7)])))
    assert lines == [
        "step,eval/loss,train/learning_rate,train/loss",
        "0,9.0,,",
        "1,7.0,0.5,8.0",
    ]


def test_a_name_with_a_comma_is_one_cell() -> None:
    log = [step(1, 8, metrics={'a,"b"': 1.0})]
    assert next(csv_lines(figures_in(log))).split(",", 1)[1].startswith('"train/a,""b""",')
