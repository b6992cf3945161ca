"""The app as a whole: what it loads, when it opens, how often it draws."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows, until
from zoo.gym import cli
from zoo.gym.cli import main
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.places import PLACES

HEAVY = {
    *("torch", "mlx", "transformers", "peft", "numpy", "sqlite_utils"),
    *("huggingface_hub", "safetensors", "datasets", "accelerate", "pandas", "PIL"),
}

VISIT = """
import asyncio, sys
from tests.gym.tui import fakes
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.places import PLACES

async def visit():
    run = fakes.new_run()
    fakes.train(run, 1, 20)
    app = GymApp()
    async with app.run_test() as pilot:
        for key in "4", "enter", "l", "escape", "1", "n", "escape", "question_mark":
            await pilot.press(key)
            await pilot.pause(0.2)

asyncio.run(visit())
print(",".join({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.slow
def test_a_walk_through_the_app_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", VISIT], capture_output=True, text=True, check=True)
    assert set(done.stdout.split(",")) & HEAVY == set()


FIRST = """
import sys
from zoo.gym.offline import go_offline
from zoo.gym.paths import folders
from zoo.gym.tui.app import PLACES
go_offline()
folders()
PLACES[0].open()
print(*sys.modules)
"""
"""All that `zoo-gym` does before it draws."""


@pytest.mark.slow
def test_the_first_frame_waits_for_no_charts_settings_or_models() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    late = {"plotext", "pydantic", "yaml", "cyclopts", "zoo.models", "urllib.request"}
    assert late & set(done.stdout.split()) == set()


def test_no_words_on_a_terminal_open_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "on_terminal", lambda: True)
    monkeypatch.setattr("zoo.gym.tui.open_app", lambda: 7)
    assert main([]) == 7


def test_no_words_off_a_terminal_print_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("Usage: zoo-gym")


def test_over_ssh_it_draws_once_a_second_without_animations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 5 10.0.0.2 22")
    app = GymApp()
    assert (app.redraw_s, app.animation_level) == (1.0, "none")


def test_here_it_draws_at_most_twice_a_second() -> None:
    assert GymApp().redraw_s >= 0.5


@pytest.mark.slow
def test_no_color_shows_the_same_words(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run = fakes.new_run()
    fakes.train(run, 1, 60)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        assert app.no_color
        await app.action_watch(run.id)
        await shows(pilot, "4 Runs", "Training, step 60", "training loss", "x")

    drive(visit)


@pytest.mark.slow
def test_q_quits(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running

    drive(visit)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["paths", "paths --no-such-option"])
def test_a_command_in_the_app_shows_how_it_ended(drive: Drive, words: str) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_command(words)
        end = "Failed with exit code 2." if "no-such" in words else "Done."
        await shows(pilot, end, "no such option" if "no-such" in words else "runs")

    drive(visit)


@pytest.mark.slow
def test_leaving_a_command_that_runs_asks_first(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_command("doctor")
        await shows(pilot, "Running zoo-gym doctor")
        await pilot.press("escape")
        await shows(pilot, "End zoo-gym doctor?")
        await pilot.press("y")
        await shows(pilot, "What to do next")

    drive(visit)


@pytest.mark.slow
def test_the_output_of_a_command_is_copied(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_command("paths")
        await shows(pilot, "Done.", "runs")
        await pilot.press("y")
        assert "models " in app.clipboard

    drive(visit)


SEVENTH = """
import asyncio, sys, types
from textual.widgets import Static
from zoo.gym.tui import places
places.PLACES += (places.Place("7", "toy", "Toy", "to be tested"),)
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar

class ToyScreen(GymScreen):
    def compose(self):
        yield Bar()
        yield Static("a room of its own")

sys.modules["zoo.gym.tui.toy"] = types.ModuleType("zoo.gym.tui.toy")
sys.modules["zoo.gym.tui.toy.screen"] = types.ModuleType("zoo.gym.tui.toy.screen")
sys.modules["zoo.gym.tui.toy.screen"].ToyScreen = ToyScreen
from tests.gym.tui.conftest import shows
from zoo.gym.tui.app import GymApp

async def visit():
    app = GymApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await shows(pilot, "What to do next", "7 Toy")
        await pilot.press("7")
        await shows(pilot, "a room of its own")

asyncio.run(visit())
"""
"""A seventh place: a screen in a file, and a line in the table of places."""


@pytest.mark.slow
def test_a_new_place_is_a_file_and_a_line(home: Path) -> None:
    subprocess.run([sys.executable, "-c", SEVENTH], check=True, timeout=100)


@pytest.mark.slow
def test_the_first_layout_of_a_screen_is_that_of_the_terminal_s_size(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    layouts, lay_out = list[tuple[str, bool]](), Screen._refresh_layout

    def watched(screen: Screen[object], *size: Any, **more: Any) -> None:
        lay_out(screen, *size, **more)
        layouts.append((type(screen).__name__, screen.has_class("-wide")))

    monkeypatch.setattr(Screen, "_refresh_layout", watched)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        for place in PLACES:
            await app.go(place.mode)
        app.action_start()
        await until(pilot, lambda: any(name == "StartScreen" for name, _ in layouts))
        assert len({name for name, _ in layouts}) == len(PLACES) + 1
        assert [name for name, is_wide in layouts if not is_wide] == []

    drive(visit, size=(120, 36))
