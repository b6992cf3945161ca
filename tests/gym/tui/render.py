"""Draws every screen as a PNG, to be looked at: python -m tests.gym.tui.render FOLDER [NAME ...]

Each screen is drawn in its states at four sizes, the places in each theme as well. Names choose
views, such as `home` or `share-rounds`. Needs rsvg-convert and a font with box and braille signs,
such as DejaVu Sans Mono.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import get_args

import pytest

from tests.gym.tui.answers import World
from tests.gym.tui.views import views_of
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.places import PLACES

SIZES = ((120, 36), (100, 30), (80, 24), (160, 45))
THEMES = ("zoo-light", "ansi-dark", "no-color")
THEME_SIZE = (100, 30)
CELL_PX, LETTER_PX = 12.2, 20.26
"""The width of a cell in the picture, and the size of DejaVu Sans Mono that has this width."""


async def draw_world(world: World, folder: Path, names: list[str]) -> None:
    """Draws the screens of a world at each size."""
    app = GymApp()
    app.animation_level = "none"
    with tempfile.TemporaryDirectory() as files, pytest.MonkeyPatch.context() as patch:
        async with app.run_test(size=SIZES[0], notifications=True) as pilot:
            for view in views_of(world, Path(files), patch):
                if names and view.name not in names:
                    continue
                await view.show(app, pilot)
                for width, height in SIZES:
                    await pilot.resize_terminal(width, height)
                    await pilot.pause(0.2)
                    state = "" if world in {"empty", "filled"} else f"-{world}"
                    draw(app, folder / f"{view.name}{state}-{width}x{height}.png")
                await pilot.resize_terminal(*SIZES[0])


async def draw_theme(theme: str, folder: Path) -> None:
    """Draws the places in a theme, or without colours."""
    places = ["home", "models", "data", "runs", "chat", "share-rounds"]
    assert len(places) == len(PLACES)
    with tempfile.TemporaryDirectory() as files, pytest.MonkeyPatch.context() as patch:
        if theme == "no-color":
            patch.setenv("NO_COLOR", "1")
        app = GymApp()
        app.animation_level = "none"
        app.theme = theme if theme in app.available_themes else app.theme
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            for view in views_of("filled", Path(files), patch):
                if view.name in places:
                    await pilot.resize_terminal(120, 36)
                    await view.show(app, pilot)
                    await pilot.resize_terminal(*THEME_SIZE)
                    await pilot.pause(0.2)
                    draw(app, folder / f"{view.name}-{theme}.png")


def draw(app: GymApp, path: Path) -> None:
    """Writes the screen as it is, in a font that is here.

    rsvg-convert drops blanks at the start of a text and knows no textLength: texts begin where
    their first letter stands, in letters of exactly one cell.
    """
    svg = re.sub(r"@font-face \{[^}]*\}", "", app.export_screenshot())
    svg = svg.replace("Fira Code", "DejaVu Sans Mono").replace("size: 20px", f"size: {LETTER_PX}px")
    svg = re.sub(r'x="([\d.]+)"([^>]*)>((?:&#160;)+)', _moved, svg)
    subprocess.run(["rsvg-convert", "-o", str(path)], input=svg.encode(), check=True)


def _moved(found: "re.Match[str]") -> str:
    left = float(found[1]) + len(found[3]) // len("&#160;") * CELL_PX
    return f'x="{left:.1f}"{found[2]}>'


def main() -> None:
    """Draws into the folder that is named."""
    folder, names = Path(sys.argv[1]).absolute(), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for world in get_args(World):
        _in_new_home(draw_world(world, folder, names))
    for theme in () if names else THEMES:
        _in_new_home(draw_theme(theme, folder))


def _in_new_home(drawing: "Coroutine[None, None, None]") -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"ZOO_GYM_HOME": home, "HF_HUB_CACHE": f"{home}/hub", "HF_HUB_OFFLINE": "1"}
        asyncio.run(drawing)


if __name__ == "__main__":
    main()
