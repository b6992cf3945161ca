"""The first path in Chromium, to a verified round and proven lessons, by the keys it names."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import chat_server
from tests.gym.experience.causal import World
from tests.gym.tui.test_first_path import (
    compare,
    compress,
    export,
    learn,
    look_at_data,
    send_and_verify,
    train,
)
from tests.gym.webui.test_browser import browser
from tests.gym.webui.test_path_in_browser import Drawn, address

pytestmark = pytest.mark.nightly

__all__ = ["address", "browser"]

KEYS = {"BTab": "Shift+Tab", "Down": "ArrowDown", "Right": "ArrowRight", "Esc": "Escape"}
"""Keys by the names that tmux or the screen has for them."""


class BrowserTraveller:
    """Somebody in front of a browser who does what `Traveller` does in a terminal."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.drawn, self.folder = page, Drawn(page), folder

    def shows(self, *texts: str, absent: str = "\0") -> str:
        """Waits until every text is drawn, and returns the screen."""
        return "\n".join(self.drawn.shows(*texts, absent=absent))

    def open_app(self) -> None:
        """The page is open already."""

    def keep(self, name: str) -> None:
        """Nothing is kept."""

    def keys(self, *names: str) -> None:
        """Presses keys, by tmux's names for them."""
        for name in names:
            key = KEYS.get(name, name)
            self.page.keyboard.press(f"Control+{key[-1]}" if key.startswith("C-") else key)
            self.page.wait_for_timeout(300)  # the next one may be for what this one opens

    def press(self, key: str) -> None:
        """Presses the key that a text of the screen begins with, such as `c Compress`."""
        self.shows(key)
        name = key.split(maxsplit=1)[0].strip(":")
        self.keys({"^s": "C-s", "ctrl+s": "C-s"}.get(name, name))
        if name == "Esc":
            time.sleep(0.6)

    def type(self, text: str, *then: str) -> None:
        """Types into a field once it has the focus, and presses keys."""
        self.drawn.type(text)
        self.keys(*then)

    def tmux(self, _command: str, _option: str, text: str) -> None:
        """Types at once."""
        self.page.keyboard.type(text)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def test_from_an_empty_home_to_a_verified_round_and_proven_lessons(
    address: str, browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": 915, "height": 620})
    traveller: Any = BrowserTraveller(page, tmp_path)
    page.goto(address)
    world = World()
    for part in (look_at_data, train, compare, compress, export, send_and_verify):
        part(traveller)
    with chat_server(lambda body, _: world.answer(body["messages"], body.get("seed", 0))) as server:
        learn(traveller, f"{server.url}#world")
