"""The first run of a new user by mouse alone; the worker is a real one."""

from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from tests.gym.jobs.left_over import kill_workers
from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from tests.gym.tui.test_terminal import has_chart
from zoo.gym.jobs import read_status, run_folders
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import Choices

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> object:
    yield
    kill_workers()


async def click_text(pilot: Pilot[None], selector: type | str, text: str) -> None:
    """Clicks where a text stands within a widget."""
    place = pilot.app.screen.query_one(selector).region
    lines = [line[place.x :] for line in screen_text(pilot.app).splitlines()[place.y :]]
    row = next(row for row, line in enumerate(lines) if text in line)
    await pilot.click(selector, offset=(lines[row].index(text) + 1, row))


def test_from_an_empty_home_to_a_finished_run_and_back(drive: Drive, tmp_path: Path) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "None yet")
        await click_text(pilot, Choices, "Train on my examples")
        await shows(pilot, "1 Examples")
        app.post_message(Paste(str(path)))
        await until(pilot, lambda: "40 examples; detected" in screen_text(app), 120)
        await pilot.click("#start")
        await until(pilot, lambda: "Done, step" in screen_text(app), 120)
        assert has_chart(screen_text(app))
        await click_text(pilot, Bar, "1 Home")
        await shows(pilot, "Open r0001", "zen-pico, done")
        await click_text(pilot, Choices, "Open r0001")
        await shows(pilot, "Done, step", "Chat with it")
        assert [read_status(run).state for run in run_folders()] == ["done"]

    drive(visit)
