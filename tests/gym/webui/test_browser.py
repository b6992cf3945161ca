"""The app in Chromium: keys work at once, and nothing but this machine is asked."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gym.tui import fakes

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LIMIT_MS = 60_000


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server in a process of its own, with two runs."""
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    fakes.end(fakes.trained(150), "done")
    fakes.trained(40)
    words = [sys.executable, "-P", "-m", "zoo.gym", "webui", "--port", "0", "--json"]
    env = os.environ | {"ZOO_GYM_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env, text=True) as server:
        assert server.stdout is not None
        line = next(line for line in server.stdout if line.startswith("{"))
        yield json.loads(line)["url"]
        server.terminate()


@pytest.fixture
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Seen:
    """What the page was sent to draw since it was looked at last; the page itself is a canvas."""

    def __init__(self, page: Any) -> None:
        self.page, self.text = page, ""
        page.on("websocket", lambda socket: socket.on("framereceived", self._take))

    def wait_for(self, *texts: str) -> None:
        for _ in range(LIMIT_MS // 200):
            if all(text in self.text for text in texts):
                self.text = ""
                return
            self.page.wait_for_timeout(200)
        raise AssertionError(f"{texts} were not drawn:\n{self.text}")

    def _take(self, frame: str | bytes) -> None:
        drawn = frame.decode("utf-8", "replace") if isinstance(frame, bytes) else frame
        self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_every_place_opens_by_its_key_and_only_this_machine_is_asked(
    address: str, browser: Any, size: tuple[int, int]
) -> None:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    seen = Seen(page)
    page.goto(address)
    seen.wait_for("What to do next")
    assert "token" not in page.url
    places = {"4": "r0002", "3": "Data", "2": "zen-pico", "1": "This machine", "6": "Deltas"}
    for key, text in (places | {"5": "Prompt"}).items():
        page.keyboard.press(key)
        seen.wait_for(text)
    assert all(url.startswith(address.partition("/?")[0]) for url in asked)


def test_a_run_is_opened_by_a_click_and_drawn(address: str, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    seen = Seen(page)
    page.goto(address)
    seen.wait_for("What to do next")
    page.keyboard.press("4")
    seen.wait_for("r0002")
    page.keyboard.press("Enter")
    seen.wait_for("step 40 of 150", "training loss")
