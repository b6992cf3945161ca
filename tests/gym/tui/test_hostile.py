"""What is pasted or typed never ends the app, and what ends it prints no secret."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.codes import raises
from tests.gym.tui.conftest import Drive, screen_text, until
from zoo.gym.jobs.command import ask_command
from zoo.gym.tui.app import GymApp

HOSTILE = ["x" * 200_000, "a\0b", "a\ud800b"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_no_program_takes_is_our_error(text: str) -> None:
    with raises("jobs.command_not_started"):
        asyncio.run(ask_command(["data", "inspect", text]))


@pytest.mark.slow
def test_an_error_of_a_command_keeps_its_code(tmp_path: Path) -> None:
    with raises("config.no_such_file", "no such file") as failed:
        asyncio.run(ask_command(["data", "inspect", str(tmp_path / "absent.jsonl")]))
    assert failed.value.code == "config.no_such_file"


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_a_paste_that_no_program_takes_is_refused_on_the_screen(drive: Drive, text: str) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n")
        await until(pilot, lambda: bool(app.screen.query("#path")))
        app.screen.query_one("#path", Input).value = text
        app.screen.query_one("#path", Input).focus()
        await pilot.press("enter")
        await until(
            pilot, lambda: "no such file" in screen_text(app) or "cannot" in screen_text(app)
        )

    drive(visit)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["ctrl+p", "pageup", "pagedown", "n", "4", "question_mark"])
def test_no_key_ends_the_app_in_three_lines(drive: Drive, key: str) -> None:
    async def visit(_: GymApp, pilot: Pilot[None]) -> None:
        for word in (key, "pageup", "ctrl+p", "escape"):
            await pilot.press(word)
            await pilot.pause(0.05)

    drive(visit, size=(80, 3))


CRASH = """
import os
from zoo.gym.tui.app import GymApp

def on_mount(self):
    key = os.environ["OPENAI_API_KEY"]
    raise RuntimeError("a fault")

GymApp.on_mount = on_mount
from zoo.gym import cli
cli.on_terminal = lambda: True
cli.main()
"""


@pytest.mark.slow
def test_an_app_that_ends_in_a_fault_prints_no_variables() -> None:
    driver = "textual.drivers.headless_driver:HeadlessDriver"
    environment = os.environ | {"OPENAI_API_KEY": "sk-canary", "TEXTUAL_DRIVER": driver}
    done = subprocess.run(
        [sys.executable, "-c", CRASH],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "unexpected RuntimeError: a fault" in done.stderr
    assert "sk-canary" not in done.stdout + done.stderr
