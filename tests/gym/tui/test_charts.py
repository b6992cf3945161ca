"""Any figure of a run as a chart, alone or beside that of another run."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows, until
from zoo.gym.jobs import Run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.chart import LossChart
from zoo.gym.tui.runs.charts import Series
from zoo.gym.tui.widgets.spark import spark


def rewarded(rewards: list[float]) -> Run:
    """A run whose steps have a reward."""
    run = fakes.new_run()
    for step, reward in enumerate(rewards, start=1):
        run.events.emit("step", step=step, steps=9, loss=1.0, metrics={"reward": reward})
    return run


def test_steps_that_are_trained_again_replace_those_before(home: Path) -> None:
    run = rewarded([0.1, 0.2, 0.3])
    series = Series(run)
    series.read()
    run.events.emit("step", step=2, steps=9, loss=1.0, metrics={"reward": 0.7})
    series.read()
    assert series.points["train/reward"] == [(1, 0.1), (2, 0.7)]


def test_figures_come_in_turn_those_of_training_first(home: Path) -> None:
    run = rewarded([0.1])
    run.events.emit("eval", step=1, loss=2.0)
    series = Series(run)
    assert series.next_name("train/loss", 1) == "train/loss"  # nothing was read yet
    series.read()
    names, name = list[str](), "train/loss"
    for _ in range(3):
        names.append(name)
        name = series.next_name(name, 1)
    assert (names, name) == (["train/loss", "train/reward", "eval/loss"], "train/loss")


@pytest.mark.parametrize(
    ("values", "width", "curve"),
    [
        ([], 5, ""),
        ([3.0], 5, "▁"),
        ([2.0, 2.0], 5, "▁▁"),
        ([0.0, 7.0], 5, "▁█"),
        ([0.0, 0.0, 7.0, 7.0], 2, "▁█"),
        (list(map(float, range(8))), 8, "▁▂▃▄▅▆▇█"),
    ],
)
def test_a_curve_in_a_line_has_the_values_as_heights(
    values: list[float], width: int, curve: str
) -> None:
    assert spark(values, width) == curve


@pytest.mark.slow
def test_keys_draw_another_figure_and_another_run_beside_it(drive: Drive) -> None:
    other, run = rewarded([0.5, 0.6]), rewarded([0.1, 0.2, 0.3])

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "training loss")
        await pilot.press("right_square_bracket")
        await shows(pilot, "train/reward")
        chart = app.screen.query_one(LossChart)
        assert chart.curves[0] == [(1, 0.1), (2, 0.2), (3, 0.3)]
        await pilot.press("o")
        await shows(pilot, "Draw beside this run", other.id)
        await pilot.press("enter")
        await until(pilot, lambda: chart.curves[1] == [(1, 0.5), (2, 0.6)])
        run.events.emit("step", step=4, steps=9, loss=1.0, metrics={"reward": 0.4})
        await until(pilot, lambda: chart.curves[0][-1] == (4, 0.4))

    drive(visit)


@pytest.mark.slow
def test_settings_that_differ_are_shown_for_the_run_that_is_drawn(drive: Drive) -> None:
    rewarded([0.5])
    run = rewarded([0.1])

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "training loss")
        await pilot.press("i")
        await shows(pilot, "Press o first")
        await pilot.press("o")
        await shows(pilot, "Draw beside this run")
        await pilot.press("enter")
        await shows(pilot, "train/loss")
        await pilot.press("i")
        await shows(pilot, "zoo-gym runs diff r0001 r0002", "Done. Esc goes back")

    drive(visit)
