"""Starting a training: what the form shows of examples and a plan, and what it starts."""

import asyncio
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Button, Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.run import RunScreen
from zoo.gym.tui.start import screen as start
from zoo.gym.tui.start.inspection import inspection_words


@pytest.mark.slow
def test_a_pasted_path_is_inspected_and_described(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(f"file://{path}".replace(" ", "%20"))
        await shows(pilot, "200 examples", "3 are truncated to 2,048", "Warning: 2 of 200")
        await shows(pilot, "my.jsonl:57: no answer")
        words = ["data", "inspect", str(path), "--model", "zen-pico"]
        assert asked == [[*words, "--offline"]]

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_rows_are_inspected_for_the_stage_among_the_settings(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(path))
        await shows(pilot, "200 examples")
        app.screen.query_one("#settings", Input).value = "lora_rank=8 stage=dpo"
        await pilot.pause(2 * start.PAUSE_S)
        await shows(pilot, "200 examples")
        words = ["data", "inspect", str(path), "--model", "zen-pico"]
        assert asked == [[*words, "--offline"], [*words, "--stage", "dpo", "--offline"]]

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_a_stage_that_is_typed_while_rows_are_read_is_inspected(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, object]:
        asked.append(words)
        if "--stage" not in words:
            await asyncio.sleep(60)
        return fakes.FOUND

    monkeypatch.setattr(start, "ask_command", answer)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await until(pilot, lambda: len(asked) == 1)
        app.screen.query_one("#settings", Input).value = "stage=dpo"
        await shows(pilot, "200 examples")
        assert [word for word in asked[1] if word in {"--stage", "dpo"}] == ["--stage", "dpo"]

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_no_plan_stands_beside_an_error(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "needs about")
        settings = app.screen.query_one("#settings", Input)
        settings.value = "lora_rnk=8"
        await shows(pilot, "lora_rank")
        assert "needs about" not in screen_text(app)
        settings.value = ""
        await shows(pilot, "needs about")

    drive(visit, size=(90, 30))


def test_rows_for_other_methods_come_with_the_setting_to_add() -> None:
    pairs = fakes.FOUND | {"stages": ["dpo", "orpo"]}
    advice = "For dpo or orpo: choose one in the settings, such as stage=dpo"
    assert advice in inspection_words(pairs)
    assert advice not in inspection_words(pairs, stage_given=True)
    assert "stage=" not in inspection_words(fakes.FOUND | {"stages": ["sft"]})


@pytest.mark.slow
def test_a_file_dropped_on_a_field_with_a_path_takes_its_place(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n", *"old")
        app.post_message(Paste(f"'{path}'"))
        await shows(pilot, "200 examples")
        assert app.screen.query_one("#path", Input).value == str(path)

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_enter_after_the_inspection_starts_what_is_shown(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(path))
        await shows(pilot, "200 examples", f"zoo-gym train '{path}' --model zen-pico")
        await until(pilot, lambda: isinstance(app.focused, Button))
        await pilot.press("enter")
        await shows(pilot, "step 3 of 150")
        assert asked[-1][:4] == ["train", str(path), "--model", "zen-pico"]

    drive(visit, size=(300, 36))


@pytest.mark.slow
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

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_what_a_run_would_do_is_shown_before_it_starts(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "90 steps of 16 rows; rate 0.002; needs about 870.0 MB, 6.1")

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_a_model_in_the_cache_can_be_chosen_by_keys(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / "hub" / "models--Qwen--Qwen3-0.6B" / "snapshots").mkdir(parents=True)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n", "tab", "down", "space")
        await shows(pilot, "--model zen-nano")
        assert "Not downloaded: smollm2" in screen_text(app)

    drive(visit, size=(90, 30))


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
@pytest.mark.slow
def test_the_whole_form_fits_every_size(
    drive: Drive, asked: list[list[str]], tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "hub" / "models--Qwen--Qwen3-0.6B" / "snapshots").mkdir(parents=True)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "1 Examples", "no answer", "2 Model", "3 Settings", "Start training")

    drive(visit, size=size)
