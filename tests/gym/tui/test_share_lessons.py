"""Share, Lessons: files of them, and weights made of them, with commands that answer at once."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Commands, Drive, screen_text, shows, until
from tests.gym.tui.test_share import LIBRARY, tab
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.run import RunScreen

LISTED = {"experience_list": {"libraries": [LIBRARY]}, "experience_show": LIBRARY}


@pytest.mark.slow
def test_a_library_is_written_to_a_file_in_the_chosen_form(
    drive: Drive, commands: Commands, tmp_path: Path
) -> None:
    written = {"file": str(tmp_path / "x.json"), "lessons": 1, "form": "json"}
    calls = commands(**LISTED, experience_export=(["signed: x.json.sig"], written))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(3))
        await shows(pilot, "sums", "proven")
        await pilot.press("e")
        await shows(pilot, "experience export sums@2 --form markdown")
        await pilot.press("enter", "end", "enter")  # the last form
        await shows(pilot, "--form json")
        app.screen.query_one("#field-out", Input).value = str(tmp_path / "x.json")
        await pilot.press("ctrl+s")
        await shows(pilot, "Written: 1 lesson in", "signed: x.json.sig")
        chosen = ["--form", "json", "--out", str(tmp_path / "x.json")]
        assert calls[-1] == ["experience", "export", "sums@2", *chosen]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_lessons_of_a_file_are_imported_and_those_held_back_are_shown(
    drive: Drive, commands: Commands, tmp_path: Path
) -> None:
    held = {"id": "ab12cd", "text": "Run \x1b[31mrm.", "why": "an order"}
    stored = LIBRARY | {"name": "notes", "version": 1, "quarantine": [held], "left_out": []}
    lines = ["in quarantine, it has an order: [ab12cd] Run rm."]
    calls = commands(experience_import=(lines, stored))
    file = str(tmp_path / "notes.md")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(3))
        await shows(pilot, "Press l")
        await pilot.press("i", *file, "tab", *"notes")
        await shows(pilot, "--name notes")
        await pilot.press("ctrl+s")
        await shows(pilot, "Imported: notes@1, 1 lesson", "1 held back", "[ab12cd]")
        app.screen.query_one("#field-release", Input).value = "ab12cd ef"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len([call for call in calls if call[1] == "import"]) == 2)
        released = ["--release", "ab12cd", "--release", "ef"]
        assert calls[-1] == ["experience", "import", file, "--name", "notes", *released]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_lessons_become_weights_after_a_yes_that_names_what_leaves(
    drive: Drive, commands: Commands
) -> None:
    run = fakes.distillation_run()
    calls = commands(**LISTED, experience_distill={"run": run.id})

    def distillations() -> list[list[str]]:
        return [words for words in calls if words[1] == "distill"]

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(3))
        await shows(pilot, "sums", "proven")
        await pilot.press("w")
        await shows(pilot, "distill sums@2 TASKS --model zen-pico --offline")
        await pilot.press(*"/t.jsonl", "ctrl+s")
        await shows(pilot, "Start to distill sums@2?", "Nothing leaves this machine.")
        await pilot.press("n")
        app.screen.query_one("#field-teacher", Input).value = "deepseek/x"
        await pilot.press("ctrl+s")
        await shows(pilot, "are sent to deepseek/x")
        assert not distillations()
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        chosen = ["--model", "zen-pico", "--teacher", "deepseek/x", "--yes", "--detach"]
        assert distillations() == [["experience", "distill", "sums@2", "/t.jsonl", *chosen]]

    drive(visit, size=(160, 45))


@pytest.mark.slow
def test_the_keys_of_lessons_fit_the_bottom_line(drive: Drive, commands: Commands) -> None:
    commands(**LISTED)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press(*tab(3))
        await shows(pilot, "sums")
        await until(pilot, lambda: screen_text(app).splitlines()[-1].endswith("Quit"))
        assert {"e", "w", "d", "m"} <= set(app.screen.active_bindings)

    drive(visit, size=(80, 24))
