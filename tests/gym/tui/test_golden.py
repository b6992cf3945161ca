"""Screens as they were when somebody looked at them; `make golden` draws them anew."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import shows
from tests.gym.tui.fakes import FOUND, PLANNED
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.screens import home, start

GOLDEN = Path(__file__).parent / "golden"
DRAWN_BY = GOLDEN / "drawn-by.txt"

View = Callable[[GymApp, Pilot[None]], Awaitable[None]]


async def empty_home(app: GymApp, pilot: Pilot[None]) -> None:
    await shows(pilot, "Runs: none yet")


async def list_of_runs(app: GymApp, pilot: Pilot[None]) -> None:
    fakes.end(fakes.trained(150), "done")
    fakes.trained(40)
    await pilot.press("2")
    await shows(pilot, "running  40 of 150")


async def working_run(app: GymApp, pilot: Pilot[None]) -> None:
    run = fakes.trained(112)
    await app.action_watch(run.id)
    await shows(pilot, "Training, step 112", "tokens/s 2,134")


async def done_run(app: GymApp, pilot: Pilot[None]) -> None:
    run = fakes.trained(150)
    fakes.end(run, "done")
    await app.action_watch(run.id)
    await shows(pilot, "Done, step 150", "Chat with it", "100%")


async def lessons_run(app: GymApp, pilot: Pilot[None]) -> None:
    run = fakes.lessons_run(done=True)
    await app.action_watch(run.id)
    await shows(pilot, "balls@1 is proven", "2 lessons kept", "tokens 37,032")


async def new_training(app: GymApp, pilot: Pilot[None]) -> None:
    app.action_start("/data/chats.jsonl")
    await shows(pilot, "200 examples", "my.jsonl:57: no answer", "90 steps of 16 rows")
    app.screen.query_one("#start").focus()


VIEWS: dict[str, tuple[View, tuple[int, int]]] = {
    "home-empty": (empty_home, (80, 24)),
    "runs": (list_of_runs, (80, 24)),
    "run-working": (working_run, (120, 36)),
    "run-done": (done_run, (80, 24)),
    "run-lessons": (lessons_run, (80, 24)),
    "run-lessons-wide": (lessons_run, (120, 36)),
    "start": (new_training, (100, 30)),
}


@pytest.fixture(autouse=True)
def _the_same_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes all that depends on the machine and the hour."""

    async def found(words: list[str], *, finish: bool = False) -> dict[str, object]:
        return PLANNED if "--print-config" in words else FOUND

    monkeypatch.setattr(home, "machine_line", lambda: "A machine, 4 cores, 8 GB of memory free")
    monkeypatch.setattr(time, "strftime", lambda *_: "21 Nov 14:49")
    monkeypatch.setattr(start, "ask_command", found)


def drawn(view: View, size: tuple[int, int]) -> str:
    """Returns a screen as SVG; what moves by itself stands still."""

    async def body() -> str:
        app = GymApp()
        app.redraw_s, app.animation_level = 0.05, "none"
        async with app.run_test(size=size) as pilot:
            await view(app, pilot)
            await pilot.pause(0.3)
            return app.export_screenshot()

    return re.sub(r"@font-face \{[^}]*\}\s*", "", asyncio.run(body()))


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_a_screen_is_as_it_was_looked_at(name: str, pytestconfig: pytest.Config) -> None:
    version = f"textual {metadata.version('textual')}, plotext {metadata.version('plotext')}\n"
    file, svg = GOLDEN / f"{name}.svg", drawn(*VIEWS[name])
    if pytestconfig.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        DRAWN_BY.write_text(version)
        file.write_text(svg + "\n")
    elif DRAWN_BY.read_text() != version:
        pytest.skip(f"drawn by {DRAWN_BY.read_text().strip()}, here is {version.strip()}")
    assert file.read_text() == svg + "\n"
