"""The models: what is listed, what fits, and downloads that nobody started without a yes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui.conftest import Drive, screen_text, shows, until
from tests.models.conftest import FakeHub, cache, hub
from zoo.gym.errors import GymError
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.models import downloads
from zoo.gym.tui.models import screen as models
from zoo.gym.tui.models.downloads import Transfer, downloads_of
from zoo.gym.tui.models.text import fits_text, parameters_text, question

__all__ = ["cache", "hub"]

GB = 10**9


def row(name: str, where: str, **fields: Any) -> dict[str, Any]:
    """A model as `zoo-gym models --json` answers it."""
    here = where != "not here"
    return {
        "name": name,
        "id": name,
        "parameters": 596_049_920,
        "licence": "Apache-2.0",
        "here_bytes": 2 * GB if here else 0,
        "download_bytes": 1_500_000_000,
        "where": where,
        "folder": f"/models/{name}" if here else None,
        "revision": None,
    } | fields


MODELS = [row("zen-pico", "built in"), row("zen-nano", "not here"), row("zen-eco", "not here")]
FITS = [
    {"method": "lora", "way": "LoRA", "settings": {}, "needs_bytes": 3 * GB, "fits": True},
    {"method": "full", "way": "all weights", "settings": {}, "needs_bytes": 70 * GB, "fits": False},
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the screen asks of commands, which answer at once."""
    calls: list[list[str]] = []

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, object]:
        calls.append(words)
        if words[0:2] == ["models", "get"]:
            raise GymError("no model in it", hint="expected a 'config.json'")
        if "--fits" not in words:
            return {"models": MODELS}
        with_fits = [model | {"fits": FITS} for model in MODELS]
        return {"models": with_fits, "device": "cpu", "free_bytes": 20 * GB}

    monkeypatch.setattr(models, "ask_command", answer)
    return calls


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the queue starts: one of zen-eco fails, `slow` never ends by itself."""
    started: list[list[str]] = []

    def start(words: list[str], *, stderr: int) -> "subprocess.Popen[bytes]":
        started.append(list(words))
        name = words[2]
        answer: dict[str, Any] = {"name": name, "revision": None, "folder": "/x"}
        if name == "zen-eco":
            answer = {"error": {"code": "x", "message": "the disk is full", "hint": "free 8 GB"}}
        code = f"print({json.dumps(answer)!r})"
        if name == "zen-nano":
            code = "import time; time.sleep(60)"
        return subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=stderr, process_group=0
        )

    monkeypatch.setattr(downloads, "start_command", start)
    return started


def test_models_are_listed_with_what_fits(drive: Drive, asked: list[list[str]]) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "zen-nano", "596 M", "1.5 GB", "not here", "1 of 3 on this machine")
        await shows(pilot, "3.0 GB fits", "70.0 GB too large", "20.0 GB of memory free")
        assert asked[:2] == [["models"], ["models", "--fits"]]

    drive(visit, size=(120, 36))


def test_a_list_that_cannot_be_read_says_why(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(words: list[str]) -> dict[str, object]:
        raise GymError("the cache is not readable", hint="look at its rights")

    monkeypatch.setattr(models, "ask_command", refuse)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "the cache is not readable", "look at its rights")

    drive(visit)


def test_a_name_with_brackets_is_shown_and_chatted_with(
    drive: Drive, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "MODELS", [row("a[/b]", "in the cache")])
    opened: list[str] = []

    async def compare(_: GymApp, base: str) -> None:
        opened.append(base)

    monkeypatch.setattr(GymApp, "action_compare", compare)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "─ a[/b] ─")
        await pilot.press("c")
        await until(pilot, lambda: opened == ["a[/b]"])

    drive(visit)


def test_nothing_is_downloaded_without_a_yes(
    drive: Drive, asked: list[list[str]], commands: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "zen-nano")
        await pilot.press("j", "d")
        await shows(pilot, "Download zen-nano?", "1.5 GB", "Apache-2.0", "This uses the network")
        await shows(pilot, "zoo-gym models get zen-nano --yes")
        await pilot.press("n")
        assert commands == []
        assert downloads_of(app).transfers == []

    drive(visit)


def test_a_download_runs_on_elsewhere_and_can_be_stopped(
    drive: Drive, asked: list[list[str]], commands: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "zen-nano")
        await pilot.press("j", "enter")
        await shows(pilot, "Download zen-nano?")
        await pilot.press("y", "1")
        transfer = downloads_of(app).transfers[0]
        await until(pilot, lambda: transfer.state == "downloading")
        assert commands == [["models", "get", "zen-nano", "--yes", "--json"]]
        await pilot.press("2")
        await shows(pilot, "downloading")
        await pilot.press("x")
        await shows(pilot, "stopped  d continues it")
        assert not downloads_of(app).live

    drive(visit)


def test_downloads_run_one_after_another_and_a_failed_one_says_why(
    drive: Drive, asked: list[list[str]], commands: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "zen-eco")
        queue = downloads_of(app)
        queue.add(Transfer("zen-nano", ("models", "get", "zen-nano", "--yes"), GB))
        await pilot.press("j", "j", "d")
        await shows(pilot, "Download zen-eco?")
        await pilot.press("y")
        await shows(pilot, "zen-eco  waiting")
        queue.stop(queue.transfers[0])
        await shows(pilot, "failed", "the disk is full", "free 8 GB", "d tries again")
        await pilot.press("d")
        await shows(pilot, "Download zen-eco?")
        await pilot.press("y")
        await until(pilot, lambda: len(commands) == 3)

    drive(visit, size=(120, 36))


def test_a_dropped_gguf_file_is_imported(
    drive: Drive, asked: list[list[str]], commands: list[list[str]], tmp_path: Path
) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "zen-eco")
        app.screen.post_message(Paste(str(file)))
        await until(pilot, lambda: bool(commands))
        assert commands == [["models", "import", str(file), "--json"]]
        await until(pilot, lambda: not downloads_of(app).live)
        await until(pilot, lambda: asked.count(["models"]) >= 2)

    drive(visit)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("nothing like it", "'nothing like it': expected org/name"), (".", "no model in it")],
)
def test_what_is_no_model_is_refused_below_the_field(
    drive: Drive, asked: list[list[str]], text: str, shown: str
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2", "a")
        app.screen.query_one("#path", Input).value = text
        await pilot.press("enter")
        await shows(pilot, shown)

    drive(visit, size=(80, 24))


def test_any_id_of_the_hub_is_asked_about_first(
    drive: Drive, asked: list[list[str]], commands: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2", "a", *"org/tiny", "enter")
        await shows(pilot, "Download org/tiny?", "not known before the hub answers")
        await pilot.press("y")
        await until(pilot, lambda: bool(commands))
        assert commands[0][:3] == ["models", "get", "org/tiny"]

    drive(visit)


def test_a_model_that_is_here_is_trained_by_enter(drive: Drive, asked: list[list[str]]) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "zen-eco")
        await pilot.press("enter")
        await shows(pilot, "--model zen-pico")

    drive(visit, size=(120, 36))


def test_numbers_are_short() -> None:
    assert [parameters_text(n) for n in (821_632, 596_049_920, 4_022_468_096, None)] == [
        "0.8 M",
        "596 M",
        "4.0 B",
        "?",
    ]


def test_a_bar_is_as_long_as_its_share_of_the_free_memory() -> None:
    lines = fits_text(FITS, 6 * GB, "cpu", 55).plain.splitlines()
    # 55 - 11 for the longest way - 22 for the figures = 22 cells; 3 of 6 GB are half of them
    assert lines[1].count("━") == 11
    assert lines[2].count("━") == 22


def test_the_question_of_a_download_that_was_stopped_has_the_rest_of_its_size() -> None:
    part = row("zen-nano", "partly here", here_bytes=500_000_000)
    words = question(part, Transfer("zen-nano", ("models", "get", "zen-nano", "--yes")))
    assert "size       1.0 GB" in words[1]
    assert "time       80 s at 100 Mbit/s" in words[1]
    assert "continues where it stopped" in words[1]


@pytest.mark.slow
def test_a_model_is_downloaded_from_a_hub_by_the_real_command(
    drive: Drive, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await shows(pilot, "zen-eco")
        assert hub.asked == []
        await pilot.press("a", *"org/tiny", "enter")
        await shows(pilot, "Download org/tiny?")
        await pilot.press("y")
        await until(pilot, lambda: downloads_of(app).transfers[0].state == "done")
        assert "model.safetensors" in hub.fetched()
        await shows(pilot, "org/tiny", "in the cache")
        assert "refused" not in screen_text(app)

    drive(visit, size=(120, 36))
