"""Draws the pictures of the README from a real run of zen-pico.

Everything on them happened while they were drawn, about a minute on one core: make screenshots
"""

import asyncio
import os
import re
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from zoo.gym.jobs.command import ask_command
from zoo.gym.tui.app import GymApp

FOLDER = Path(__file__).parent / "images"
SIZE = (120, 34)
ROWS = [
    f'{{"prompt": "spell {a}o{b}i: ", "completion": "{(a + "o" + b + "i")[::-1]}"}}\n'
    for a in "bdfgklmnprst"
    for b in "bdfgklm"
]

Visit = Callable[[GymApp, Any], Awaitable[None]]


def draw(app: GymApp, name: str) -> None:
    """Writes the screen as SVG, without the web font that textual names."""
    svg = re.sub(r"@font-face \{[^}]*\}", "", app.export_screenshot(title="zoo-gym"))
    svg = svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")
    (FOLDER / f"{name}.svg").write_text("\n".join(map(str.rstrip, svg.splitlines())) + "\n")


async def shoot() -> None:
    """Trains, and draws Home, the run and its data on the way."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"ZOO_GYM_HOME": f"{folder}/home", "HF_HUB_OFFLINE": "1"}
        rows = Path(folder, "words.jsonl")
        rows.write_text("".join(ROWS))
        words = ["train", str(rows), "--model", "zen-pico", "num_train_epochs=12", "--detach"]
        run = str((await ask_command(words))["run"])
        app = GymApp()
        async with app.run_test(size=SIZE) as pilot:
            await app.action_watch(run)
            await _until(pilot, lambda: app.screen.history.status.state == "done")  # type: ignore[attr-defined]
            draw(app, "run")
            await app.go("home")
            await pilot.pause(3)
            draw(app, "home")


async def _until(pilot: Any, found: Callable[[], bool]) -> None:  # noqa: ANN401 - textual's Pilot
    for _ in range(1200):
        if found():
            await pilot.pause(2)
            return
        await pilot.pause(0.25)
    raise TimeoutError("the run did not end")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(shoot())
