"""Draws every screen as a PNG, to be looked at: python -m tests.gym.tui.render FOLDER

Needs rsvg-convert and a font with box and braille signs, such as DejaVu Sans Mono.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.gym.tui import fakes
from zoo.gym.jobs import Run, create_run
from zoo.gym.tui.app import GymApp

SIZES = ((80, 24), (100, 30), (120, 36))

type_ = Callable[[GymApp, Any], Awaitable[None]]


def fill() -> dict[str, Run]:
    """One run in each state."""
    runs = {
        name: fakes.new_run() for name in ("done", "failed", "interrupted", "paused", "running")
    }
    runs["queued"] = create_run(fakes.CONFIG, {})
    for name, last in (
        ("done", 150),
        ("failed", 31),
        ("interrupted", 80),
        ("paused", 60),
        ("running", 112),
    ):
        fakes.train(runs[name], 1, last)
    fakes.end(runs["done"], "done", model=str(runs["done"].result), metrics={"best_loss": 0.7})
    runs["failed"].events.emit(
        "error", message="the loss of step 31 is not a number", hint="a smaller learning_rate"
    )
    fakes.end(
        runs["failed"],
        "failed",
        message="the loss of step 31 is not a number",
        hint="a smaller learning_rate",
    )
    fakes.end(
        runs["interrupted"], "interrupted", request="stop", message="stopped at step 80 of 150"
    )
    runs["paused"].events.emit("state", state="paused")
    runs["running"].events.emit("warn", message="rows.jsonl:17: no assistant turn: left out")
    runs["running"].worker_log.write_text("UserWarning: something from a library\n")
    return runs


async def shots(folder: Path, size: tuple[int, int], rows: Path, *, empty: bool) -> None:
    """Goes through the screens and draws each."""

    async def shoot(name: str) -> None:
        await pilot.pause(0.7)
        draw(app, folder / f"{name}-{size[0]}x{size[1]}.png")

    app = GymApp()
    async with app.run_test(size=size, notifications=True) as pilot:
        await shoot("home-empty" if empty else "home")
        await pilot.press("2")
        await shoot("runs-empty" if empty else "runs")
        if empty:
            return
        names = ("queued", "running", "paused", "interrupted", "failed", "done")
        for i, name in enumerate(names):
            await app.action_watch(f"r{6 - i:04}")
            await shoot(f"run-{name}")
            if name == "running":
                await pilot.press("x")
                await shoot("confirm")
                await pilot.press("n", "question_mark")
                await shoot("help")
                await pilot.press("escape", "l")
                await shoot("log")
                await pilot.press("escape")
            await pilot.press("escape")
        await pilot.press("1", "n")
        await shoot("start-empty")
        app.screen.query_one("#path").value = str(rows)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await pilot.pause(0.2)
        await shoot("start-reading")
        await pilot.pause(12)
        await shoot("start-ready")


def draw(app: GymApp, path: Path) -> None:
    """Writes the screen as it is; the web font that the picture names is left out."""
    svg = re.sub(r"@font-face \{[^}]*\}", "", app.export_screenshot())
    svg = svg.replace("Fira Code", "DejaVu Sans Mono")
    subprocess.run(["rsvg-convert", "-o", str(path)], input=svg.encode(), check=True)


def main() -> None:
    """Draws into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"ZOO_GYM_HOME": home, "HF_HUB_CACHE": f"{home}/hub", "HF_HUB_OFFLINE": "1"}
        for size in SIZES:
            asyncio.run(shots(folder, size, Path(), empty=True))
        fill()
        rows = fakes.rows_file(Path(home))
        for size in SIZES:
            asyncio.run(shots(folder, size, rows, empty=False))


if __name__ == "__main__":
    main()
