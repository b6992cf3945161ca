"""The app as a whole: what it loads, when it opens, how often it draws."""

import subprocess
import sys

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows
from zoo.gym import cli
from zoo.gym.cli import main
from zoo.gym.tui.app import GymApp

HEAVY = {
    *("torch", "mlx", "transformers", "peft", "numpy", "sqlite_utils"),
    *("huggingface_hub", "safetensors", "datasets", "accelerate", "pandas", "PIL"),
}

VISIT = """
import asyncio, sys
from tests.gym.tui import fakes
from zoo.gym.tui.app import GymApp

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


@pytest.mark.slow
def test_home_loads_neither_charts_nor_settings() -> None:
    program = "import sys, zoo.gym.tui.app as a; a.PLACES[0].open(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert {"plotext", "pydantic", "yaml", "cyclopts"} & set(done.stdout.split()) == set()


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
