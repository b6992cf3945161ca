"""A private home, and a driver that presses keys in an app without a terminal."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from zoo.gym.errors import GymError, NotAvailableError
from zoo.gym.jobs.follow import POLL_S
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.screens import start

LIMIT_S = float(os.environ.get("TUI_LIMIT_S", "60"))

Visit = Callable[[GymApp, Pilot[None]], Awaitable[None]]
Drive = Callable[..., None]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("SSH_CONNECTION", "SSH_TTY", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


@pytest.fixture
def drive() -> Drive:
    """Opens the app, lets a coroutine use it, and closes it."""

    def run(visit: Visit, *, size: tuple[int, int] = (100, 30)) -> None:
        async def body() -> None:
            app = GymApp()
            app.redraw_s = 0.05
            async with app.run_test(size=size, notifications=True) as pilot:
                await visit(app, pilot)

        asyncio.run(body())

    return run


async def until(pilot: Pilot[None], found: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Waits until something holds; what is waited for happens in another thread or process."""
    for _ in range(round(limit_s / POLL_S)):
        if found():
            return
        await pilot.pause(POLL_S)
    raise AssertionError("the condition did not come true: " + screen_text(pilot.app))


def screen_text(app: object) -> str:
    """Returns what stands on the screen, a line each, colours left out."""
    assert isinstance(app, GymApp)
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


async def shows(pilot: Pilot[None], *texts: str) -> None:
    """Waits until every text stands on the screen."""
    await until(pilot, lambda: all(text in screen_text(pilot.app) for text in texts))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the screen asks of commands, which answer at once."""
    calls: list[list[str]] = []

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, object]:
        if "--print-config" in words:
            return fakes.PLANNED
        calls.append(words)
        if words[0] == "data" and "absent" in words[2]:
            raise NotAvailableError(f"{words[2]}: no such file", hint="look at its name")
        if words[0] == "train" and "lr=x" in words:
            raise GymError("lr=x: expected a number")
        if words[0] == "train":
            fakes.train(fakes.new_run(), 1, 3)
            return {"run": "r0001"}
        return fakes.FOUND

    monkeypatch.setattr(start, "ask_command", answer)
    return calls
