"""Screens that are closed while something is still being read for them."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import ScreenResume
from textual.messages import Prune
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows, until
from zoo.gym.errors import GymError
from zoo.gym.jobs import command as cli_process
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.log import LogScreen
from zoo.gym.tui.start import screen as start
from zoo.gym.tui.widgets.bar import Bar

pytestmark = pytest.mark.slow

Open = Callable[[GymApp], Awaitable[object]]


async def open_run(app: GymApp) -> None:
    await app.action_watch(fakes.trained(20).id)


async def open_log(app: GymApp) -> None:
    await app.push_screen(LogScreen(fakes.trained(20)))


async def open_start(app: GymApp) -> None:
    app.action_start("/data/rows.jsonl")


async def open_command(app: GymApp) -> None:
    app.action_command("paths")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Holds back everything that threads and commands return until the event is set."""
    released, in_thread = asyncio.Event(), asyncio.to_thread

    async def held(act: Callable[..., Any], *args: Any) -> Any:
        found = await in_thread(act, *args)
        await released.wait()
        return found

    async def asked(words: list[str], *, finish: bool = False) -> dict[str, object]:
        await released.wait()
        raise GymError("too late")

    monkeypatch.setattr(asyncio, "to_thread", held)
    monkeypatch.setattr(start, "ask_command", asked)
    return released


@pytest.mark.parametrize("opened", [open_run, open_log, open_start, open_command])
def test_an_answer_that_comes_while_a_screen_closes_is_dropped(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, answers: asyncio.Event, opened: Open
) -> None:
    async def arrive(bar: Bar) -> None:  # the other widgets are removed meanwhile
        answers.set()
        await asyncio.sleep(0.1)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await opened(app)
        await pilot.pause(0.1)
        monkeypatch.setattr(Bar, "on_unmount", arrive, raising=False)
        await app.pop_screen()
        assert answers.is_set()
        await shows(pilot, "What to do next" if opened is not open_run else "1 run, 1 active")

    drive(visit)


def test_a_refresh_that_was_due_when_a_screen_closed_is_dropped(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, answers: asyncio.Event
) -> None:
    async def arrive(bar: Bar) -> None:
        answers.set()
        await asyncio.sleep(0.1)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.pause(0.1)
        monkeypatch.setattr(Bar, "on_unmount", arrive, raising=False)
        app.screen.post_message(Prune())  # as the app does first when it ends
        app.screen.post_message(ScreenResume())
        await until(pilot, answers.is_set)

    drive(visit)


def test_a_start_that_is_refused_after_its_screen_closed_is_a_message(
    drive: Drive, answers: asyncio.Event
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start("/data/rows.jsonl")
        await pilot.press("ctrl+s", "escape")
        answers.set()
        await until(pilot, lambda: any("too late" in one.message for one in app._notifications))

    drive(visit)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups to kill")
def test_a_command_that_is_ended_takes_its_children_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = 'import os, time; os.write(1, b"%d\\n" % os.fork()); time.sleep(60)'
    monkeypatch.setattr(sys, "executable", str(script(tmp_path, program)))
    process = cli_process.start_command(["paths"], stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    pids = [int(process.stdout.readline()) for _ in range(2)]
    began = time.monotonic()
    cli_process.end_command(process)
    assert time.monotonic() - began < 10
    assert not any(lives(pid) for pid in pids if pid)


def script(folder: Path, program: str) -> Path:
    """Writes something that runs a program instead of the command."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{program}\n")
    path.chmod(0o755)
    return path


def lives(pid: int) -> bool:
    """Says whether a process still does something; one that nobody collected does not."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except (ProcessLookupError, FileNotFoundError):
            return False
        time.sleep(0.05)
    return True
