"""From what a user has and wants to a way, and from there to the form."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.home import recommend
from zoo.gym.tui.home.advice import pairs_of
from zoo.gym.tui.start.screen import StartScreen

ADVICE: dict[str, Any] = {
    "want": "preference",
    "uses": {"pair": 40},
    "method": "dpo",
    "reason": "makes the better answer of each pair likelier",
    "recipe": "zen-nano-dpo.yaml",
    "model": "zen-pico",
    "tokens": 1234,
    "memory": {"needs_bytes": 800_000_000, "free_bytes": 9_000_000_000, "fits": True},
    "settings": [{"key": "packing", "value": False, "reason": "pairs are not packed"}],
    "choices": [{"key": "max_steps", "value": 10, "reason": "10 epochs"}],
    "notes": ["few rows"],
    "command": "zoo-gym train zen-nano-dpo.yaml /x/pairs.jsonl",
}


def test_settings_are_written_as_they_are_typed_the_method_first() -> None:
    assert pairs_of(ADVICE) == ["stage=dpo", "packing=false"]
    assert pairs_of(ADVICE | {"method": "sft"}) == ["packing=false"]


@pytest.mark.slow
def test_the_way_is_shown_with_reasons_and_opened_as_a_run(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, asked: list[list[str]], tmp_path: Path
) -> None:
    file, questions = fakes.rows_file(tmp_path), list[list[str]]()

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, Any]:
        questions.append(words)
        return ADVICE if len(words) > 1 else {"methods": []}

    monkeypatch.setattr(recommend, "ask_command", answer)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_recommend(str(file))
        await shows(pilot, "makes the better answer", "800.0 MB: fits", "packing=false", "few rows")
        assert questions == [["recommend", str(file), "--model", "zen-pico"]]
        await pilot.press("ctrl+s")
        await pilot.pause(0.3)
        assert isinstance(app.screen, StartScreen)
        assert app.screen.query_one("#settings", Input).value == "stage=dpo packing=false"
        assert app.screen.query_one("#path", Input).value == str(file)

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_without_a_file_the_methods_and_what_they_learn_from_are_shown(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_recommend()
        await shows(pilot, "Drop a file", "dpo for preference", "pairs of a better and a worse")
        assert screen_text(app).count("\u25cf") == 2  # of each question one answer, by its sign
        await pilot.press("ctrl+s")
        await shows(pilot, "Name a file first")

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_what_no_method_learns_from_is_refused_in_a_sentence(drive: Drive, tmp_path: Path) -> None:
    file = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_recommend(str(file))
        await shows(pilot, "sft")
        app.screen.query_one("#want").focus()
        await pilot.press("down", "down", "down", "space")
        await shows(pilot, "expected")
        await pilot.press("ctrl+s")
        await shows(pilot, "Name a file first")

    drive(visit, size=(120, 36))
