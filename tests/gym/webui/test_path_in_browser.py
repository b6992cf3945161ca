"""The first path of a new user in Chromium: data, training, comparison, a small file, an export."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gym.tui import fakes
from tests.gym.webui.test_browser import browser

pytestmark = pytest.mark.nightly

LIMIT_MS = 60_000
WAIT_MS = 100
ANSWER_MS = 10_000
CLICKS = 3
MARK = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[^\[]|([^\x1b])", re.DOTALL)
__all__ = ["browser"]


class Drawn:
    """What the page draws, a line each, from what its server sends; the page is a canvas."""

    def __init__(self, page: Any) -> None:
        self.page, self.rest = page, ""
        self.cells: dict[tuple[int, int], str] = {}
        self.row = self.column = 0
        self.size = (1, 1)
        page.on("websocket", self._follow)

    def _follow(self, socket: Any) -> None:
        socket.on("framereceived", self._take)
        socket.on("framesent", self._resize)

    def _resize(self, frame: "str | bytes") -> None:
        kind, *sizes = json.loads(frame)
        if kind == "resize":
            self.size = sizes[0]["width"], sizes[0]["height"]

    def _take(self, frame: "str | bytes") -> None:
        text = frame.decode("utf-8", "replace") if isinstance(frame, bytes) else frame
        for found in MARK.finditer(re.sub(r"\x1b\][^\x07]*\x07", "", text)):
            where, kind, sign = found.groups()
            if kind == "H":
                self.row, self.column = (int(part or 1) - 1 for part in (where or "1;1").split(";"))
            elif kind == "J":
                self.cells.clear()
            elif sign == "\n":
                self.row, self.column = self.row + 1, 0
            elif sign == "\r":
                self.column = 0
            elif sign is not None and sign >= " ":
                self.cells[self.row, self.column] = sign
                self.column += 1

    @property
    def lines(self) -> list[str]:
        """The lines of the screen."""
        height = max((row for row, _ in self.cells), default=-1) + 1
        width = max((column for _, column in self.cells), default=-1) + 1
        cells = self.cells
        return ["".join(cells.get((y, x), " ") for x in range(width)) for y in range(height)]

    def shows(self, *texts: str, absent: str = "\0") -> list[str]:
        """Waits until every text is drawn, and returns the lines."""
        for _ in range(LIMIT_MS // WAIT_MS):
            lines = self.lines
            shown = "\n".join(lines)
            if absent not in shown and all(text in shown for text in texts):
                return lines
            self.page.wait_for_timeout(WAIT_MS)
        raise AssertionError(f"{texts} were not drawn:\n" + "\n".join(self.lines))

    def click(self, text: str, then: str, absent: str = "\0") -> None:
        """Clicks on a text, once it stays where it is; again, as people do, until it has an effect.

        Textual drops a click on a part that it is about to replace, such as a key of the footer
        whose screen has just opened.
        """
        previous, position = (-1, -1), self._position(text)
        while previous != position:
            self.page.wait_for_timeout(WAIT_MS)
            previous, position = position, self._position(text)
        box = self.page.locator(".xterm-screen").bounding_box()
        width, height = box["width"] / self.size[0], box["height"] / self.size[1]
        x, y = position[1] + len(text) / 2, position[0] + 0.5
        for _ in range(CLICKS):
            self.page.mouse.click(box["x"] + x * width, box["y"] + y * height)
            for _ in range(ANSWER_MS // WAIT_MS):
                self.page.wait_for_timeout(WAIT_MS)
                drawn = "\n".join(self.lines)
                if then in drawn and absent not in drawn:
                    return

    def _position(self, text: str) -> tuple[int, int]:
        """The line and column where a text is first shown."""
        lines = self.shows(text)
        return next((y, line.index(text)) for y, line in enumerate(lines) if text in line)

    def press(self, key: str) -> None:
        """Presses a key."""
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Types into a field, once it has the focus."""
        self.shows("Esc ", absent="q Quit")  # the bottom line of a field
        self.page.keyboard.type(text)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server in a process of its own, whose home is empty."""
    words = [sys.executable, "-P", "-m", "zoo.gym", "webui", "--port", "0", "--json"]
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, env=env, text=True, cwd=tmp_path
    ) as server:
        assert server.stdout is not None
        line = next(line for line in server.stdout if line.startswith("{"))
        yield json.loads(line)["url"]
        server.terminate()


def test_from_an_empty_home_to_an_export_by_mouse_and_keys(
    address: str, browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    app = Drawn(page)
    page.goto(address)
    app.shows("None yet")
    app.click("Look at a file", "p Path")
    app.click("p Path", "Esc ", absent="q Quit")
    app.type(str(fakes.rows_file(tmp_path)))
    app.press("Enter")
    app.shows("17 to 32 ████", "spell bobi")
    app.click("t Train", "needs about")
    app.shows("40 examples", "needs about")
    app.click("KEY=VALUE", "Esc ", absent="q Quit")
    app.type("max_steps=20")
    app.shows("zen-pico max_steps=20")
    app.click("Start training", "> r0001")
    app.shows("Done, step 20 of 20", "100%")
    app.press("c")
    app.shows("base zen-pico", "run r0001")
    app.click("what do you want to ask?", "Esc ", absent="q Quit")
    app.type("spell bobi: ")
    app.press("Enter")
    app.shows("> spell bobi:", "first 0.")
    app.press("Escape")
    app.shows("q Quit")
    app.click("6 Share", "c compresses it")
    app.click("c Compress", "No coding is measured yet")
    app.click("Measure ", "Running zoo-gym")
    app.shows("* --bits", "Written with")
    app.click("4 Runs", "training loss of")
    app.press("Enter")
    app.shows("e: export")
    app.press("e")
    app.click("GGUF, 16 bits", "r0001-f16.gguf")
    app.shows("Done. Esc goes back.", "r0001-f16.gguf")
    assert (tmp_path / "r0001-f16.gguf").stat().st_size > 10**6
    assert all(url.startswith(address.partition("/?")[0]) for url in asked)
