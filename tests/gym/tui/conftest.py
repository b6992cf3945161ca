"""A private home, and a driver that presses keys in an app without a terminal."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from zoo.gym.errors import GymError, NotAvailableError
from zoo.gym.jobs.follow import POLL_S
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.share import contribute as share_contribute
from zoo.gym.tui.share import deltas_pane as share_deltas
from zoo.gym.tui.share import form as share_form
from zoo.gym.tui.share import lessons_pane as share_lessons
from zoo.gym.tui.share import rounds_pane as share_rounds
from zoo.gym.tui.share import variants_pane as share_variants
from zoo.gym.tui.share.asking import Answer
from zoo.gym.tui.start import screen as start

LIMIT_S = float(os.environ.get("TUI_LIMIT_S", "60"))

Visit = Callable[[GymApp, Pilot[None]], Awaitable[None]]
Drive = Callable[..., None]


SHARE = (
    share_contribute, share_deltas, share_form, share_lessons, share_rounds, share_variants
)  # fmt: skip

NOTHING: dict[str, Any] = {
    "variants_list": {"variants": []},
    "round_list": {"rounds": []},
    "experience_list": {"libraries": []},
}

Calls = list[list[str]]
Commands = Callable[..., Calls]


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
    """Waits until every text stands on the screen, however wide the blanks between words are."""

    def found() -> bool:
        shown = screen_text(pilot.app)
        return all(text in shown or text in re.sub(" +", " ", shown) for text in texts)

    await until(pilot, found)


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


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Answers commands by their first two words: an object, an error, or lines and an object."""

    def answered(**answers: Any) -> Calls:
        calls: Calls = []

        async def ask(words: Sequence[str], line: Any = None) -> Answer:
            calls.append(list(words))
            found = (NOTHING | answers).get("_".join(words[:2]), {})
            if callable(found):
                found = found(words)
            if isinstance(found, Exception):
                raise found
            lines, value = found if isinstance(found, tuple) else ([], found)
            for one in lines if line else ():
                line(one)
            return Answer(value, lines)

        for module in SHARE:
            monkeypatch.setattr(module, "ask_lines", ask)
        return calls

    return answered
