"""Published promises in Chromium that the first path does not pass: merge, filter, tune, black."""

import colorsys
import re
from pathlib import Path
from typing import Any

import pytest

from tests.gym.tui import fakes
from tests.gym.webui.test_browser import browser
from tests.gym.webui.test_path_in_browser import Drawn, address
from zoo.gym import TrainConfig, run_training

pytestmark = pytest.mark.nightly

__all__ = ["address", "browser"]

COLOUR = re.compile(r"([34]8);2;(\d+);(\d+);(\d+)")
GREY = 12
"""How far the parts of a grey are apart: these have a little warmth."""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return fakes.rows_file(tmp_path)


def hue(red: int, green: int, blue: int) -> float:
    return colorsys.rgb_to_hsv(red, green, blue)[0]


def opened(browser: Any, address: str) -> Drawn:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    drawn = Drawn(page)
    page.goto(address)
    drawn.shows("q Quit")
    return drawn


def test_two_runs_are_merged(address: str, browser: Any, rows: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        run_training(
            TrainConfig(model_name_or_path="zen-pico", dataset=str(rows), max_steps=1, seed=seed)
        )
    app = opened(browser, address)
    app.click("4 Runs", "training loss of")
    app.press("m")
    app.shows("zoo-gym merge r0002 r0001 --method linear")
    app.press("Control+s")
    app.shows("Merged:")
    assert (tmp_path / "merged" / "model.safetensors").is_file()


def test_settings_are_searched(address: str, browser: Any, rows: Path) -> None:
    app = opened(browser, address)
    app.click("4 Runs", "No runs yet")
    app.press("t")
    app.shows("Settings to search")
    for value in (str(rows), "zen-pico", "lora_rank=2,4 max_steps=2", "2"):
        app.type(value)
        app.shows(value.split()[-1])
        app.press("Tab")
        app.page.wait_for_timeout(1000)  # keys go to the field that has the focus when they come
    app.shows("zoo-gym tune", "--trials 2")
    app.press("Control+s")
    app.shows("The best trial is")


def test_rows_are_filtered(address: str, browser: Any, rows: Path) -> None:
    app = opened(browser, address)
    app.click("Look at a file", "p Path")
    app.click("p Path", "Esc ", absent="q Quit")
    app.type(str(rows))
    app.press("Enter")
    app.shows("17 to 32 ████", "spell bobi")
    app.press("/")
    app.type("spell dofi")
    app.press("Enter")
    app.shows("match 1 of 1", "ifod")


def test_the_page_is_black_and_grey_but_for_what_carries_state(address: str, browser: Any) -> None:
    sent = ""

    def take(frame: "str | bytes") -> None:
        nonlocal sent
        sent += frame.decode("utf-8", "replace") if isinstance(frame, bytes) else frame

    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.on("websocket", lambda socket: socket.on("framereceived", take))
    drawn = Drawn(page)
    page.goto(address)
    drawn.shows("q Quit")
    for place in "23456":
        page.keyboard.press(place)
        page.wait_for_timeout(1000)
    colours = {
        (plane, *map(int, parts)) for plane, *parts in COLOUR.findall(sent) if len(parts) == 3
    }
    behind = {colour[1:] for colour in colours if colour[0] == "48"}
    tinted = {colour[1:] for colour in colours if max(colour[1:]) - min(colour[1:]) > GREY}
    assert (0, 0, 0) in behind
    assert all(max(colour) < 64 or min(colour) > 200 for colour in behind)
    accents = [hue(0x5E, 0xEA, 0xD4), hue(0xFB, 0xBF, 0x24)]
    assert all(min(abs(hue(*colour) - accent) for accent in accents) < 0.02 for colour in tinted)
