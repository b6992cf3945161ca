"""The commands of ctrl+p."""

import pytest
from textual.color import Color
from textual.command import CommandPalette
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows, until
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.palette import commands
from zoo.gym.tui.runs.chart import LossChart
from zoo.gym.tui.runs.run import RunScreen
from zoo.gym.tui.theme import ZOO

pytestmark = pytest.mark.slow


def test_the_commands_are_those_of_the_app_and_what_the_run_can_do_now(drive: Drive) -> None:
    run = fakes.trained(20)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        listed = [command.title for command in commands(app, app.screen)]
        titles = set(listed)
        assert len(titles) == len(listed)
        assert {"Pause", "Stop", "Log", "New run", "Home", "Doctor", "Theme: light"} <= titles
        assert not {"Resume", "Finish", "Theme", "Screenshot", "Maximize"} & titles

    drive(visit)


def test_a_command_that_is_searched_for_does_what_its_key_does(drive: Drive) -> None:
    run = fakes.trained(20)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.press(*"pause")
        await shows(pilot, "pause after this step")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await until(pilot, lambda: run.control.pending() == "pause")

    drive(visit)


def test_the_curve_takes_the_colours_of_another_theme(drive: Drive) -> None:
    run = fakes.trained(20)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        chart = app.screen.query_one(LossChart)
        before = str(chart.plt.build())
        app.theme = "textual-light"
        await until(pilot, lambda: str(chart.plt.build()) != before)

    drive(visit)


def test_a_theme_is_chosen_by_its_command(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        found = {command.title: command for command in commands(app, app.screen)}
        for title in ("Theme: light", "Theme: terminal", "Theme: black"):
            found[title].callback()
            await shows(pilot, "What to do next")
        assert app.theme == "zoo"

    drive(visit)


@pytest.mark.slow
def test_the_theme_is_black_and_only_states_have_a_colour(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        assert (app.theme, app.screen.styles.background.hex) == ("zoo", "#000000")
        colours = {name: value for name, value in vars(ZOO).items() if str(value)[:1] == "#"}
        colours |= {name: value for name, value in ZOO.variables.items() if value[0] == "#"}
        grey = {name for name, value in colours.items() if Color.parse(value).hsl.s <= 0.2}
        assert set(colours) - grey == {"success", "warning", "error"}

    drive(visit)
