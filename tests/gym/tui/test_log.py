"""What a worker or a command printed."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.log import LogScreen
from zoo.gym.tui.widgets.text_log import MOST_LINES, TextLog

pytestmark = pytest.mark.slow

LONG = "RuntimeError: " + " ".join(f"word{i:02}" for i in range(40))


def words_shown(app: GymApp) -> bool:
    return all(f"word{i:02}" in screen_text(app) for i in range(40))


def test_a_long_line_is_wrapped_and_again_after_a_resize(drive: Drive) -> None:
    run = fakes.trained(3)
    run.worker_log.write_text(f"{LONG}\n")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.push_screen(LogScreen(run))
        await until(pilot, lambda: words_shown(app))
        await pilot.resize_terminal(60, 30)
        await until(pilot, lambda: words_shown(app))

    drive(visit)


def test_a_line_that_is_written_in_two_parts_is_one_line(drive: Drive) -> None:
    run = fakes.trained(3)
    run.worker_log.write_text("first\nsecond is")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.push_screen(LogScreen(run))
        await shows(pilot, "second is")
        with run.worker_log.open("a") as file:
            file.write(" whole\nthird\n")
        await shows(pilot, "second is whole", "third")
        assert app.screen.query_one(TextLog).text == "first\nsecond is whole\nthird"

    drive(visit)


def test_a_log_keeps_its_newest_lines(drive: Drive) -> None:
    run = fakes.trained(3)
    run.worker_log.write_text("".join(f"line {i}\n" for i in range(MOST_LINES + 5)))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.push_screen(LogScreen(run))
        await shows(pilot, f"line {MOST_LINES + 4}")
        lines = app.screen.query_one(TextLog).text.splitlines()
        assert (len(lines), lines[0]) == (MOST_LINES, "line 5")

    drive(visit)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_a_message_covers_no_text_of_a_run(
    drive: Drive, tmp_path: Path, size: tuple[int, int]
) -> None:
    run = fakes.trained(60)
    fakes.end(run, "interrupted", request="stop")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Stopped at step 60", "Next: space resumes")
        app.notify("a message\nand its hint")
        await shows(pilot, "a message", "and its hint")
        await shows(pilot, "Next: space resumes", "space Resume", "saved at step 60", "x held-out")

    drive(visit, size=size)
