"""Starting a training."""

from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Button, Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.errors import GymError, NotAvailableError
from zoo.gym.jobs import run_folders
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.screens import start
from zoo.gym.tui.screens.run import RunScreen

FOUND = {
    "files": {"/x/my.jsonl": "prompt/completion"},
    "rows": 200,
    "tokens": {"p50": 31, "longest": 3904},
    "truncated": 3,
    "cutoff_len": 2048,
    "warnings": ["2 of 200 rows name pictures, sound or video, which the model never sees"],
    "problems": [{"where": "my.jsonl:57", "reason": "no answer"}],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the screen asks of commands, which answer at once."""
    calls: list[list[str]] = []

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, object]:
        calls.append(words)
        if words[0] == "data" and "absent" in words[2]:
            raise NotAvailableError(f"{words[2]}: no such file", hint="look at its name")
        if words[0] == "train" and "lr=x" in words:
            raise GymError("lr=x: expected a number")
        if words[0] == "train":
            fakes.train(fakes.new_run(), 1, 3)
            return {"run": "r0001"}
        return FOUND

    monkeypatch.setattr(start, "ask_command", answer)
    return calls


def test_a_pasted_path_is_inspected_and_told_in_words(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(f"file://{path}".replace(" ", "%20"))
        await shows(pilot, "200 examples", "3 are cut at 2,048", "Mind: 2 of 200")
        await shows(pilot, "my.jsonl:57: no answer")
        assert asked == [["data", "inspect", str(path), "--model", "zen-pico", "--offline"]]

    drive(visit)


def test_a_file_dropped_on_a_field_with_a_path_takes_its_place(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n", *"old")
        app.post_message(Paste(f"'{path}'"))
        await shows(pilot, "200 examples")
        assert app.screen.query_one("#path", Input).value == str(path)

    drive(visit)


def test_enter_after_the_inspection_starts_what_is_shown(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(path))
        await shows(pilot, "200 examples", f"zoo-gym train '{path}' --model zen-pico")
        await until(pilot, lambda: isinstance(app.focused, Button))
        await pilot.press("enter")
        await shows(pilot, "step 3 of 150", "run r0001 has started")
        assert asked[-1][:4] == ["train", str(path), "--model", "zen-pico"]

    drive(visit, size=(160, 36))


def test_a_click_starts_with_the_settings_that_were_typed(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "200 examples")
        await pilot.click("#settings")
        await pilot.press(*"max_steps=9")
        await pilot.click("#start")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert asked[-1][4:] == ["max_steps=9", "--offline", "--detach"]

    drive(visit)


def test_a_file_that_is_absent_is_said_with_its_hint(drive: Drive, asked: list[list[str]]) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n")
        await pilot.press(*"absent", "enter")
        await shows(pilot, "absent: no such file", "look at its name")
        assert app.focused is app.screen.query_one("#path", Input)

    drive(visit)


def test_a_refused_start_leaves_the_form_as_it_was(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "200 examples")
        app.screen.query_one("#settings", Input).value = "lr=x"
        await pilot.press("ctrl+s")
        await shows(pilot, "lr=x: expected a number", "Start training")
        assert not app.screen.query_one("#start", Button).disabled
        assert run_folders() == []

    drive(visit)


def test_a_model_in_the_cache_can_be_chosen_by_keys(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / "hub" / "models--Qwen--Qwen3-0.6B" / "snapshots").mkdir(parents=True)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n", "tab", "down", "space")
        await shows(pilot, "--model zen-nano")
        assert "Not here: zen-eco" in screen_text(app)

    drive(visit)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
def test_the_whole_form_fits_every_size(
    drive: Drive, asked: list[list[str]], tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "hub" / "models--Qwen--Qwen3-0.6B" / "snapshots").mkdir(parents=True)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "1 Examples", "no answer", "2 Model", "3 Settings", "Start training")

    drive(visit, size=size)
