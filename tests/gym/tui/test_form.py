"""What is typed in the form of a new training is checked, and each error stands at its field."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.widgets import Button, Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.errors import GymError, NotAvailableError
from zoo.gym.jobs import run_folders
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.dialogs.explain import ExplainDialog
from zoo.gym.tui.start import screen as start
from zoo.gym.tui.start.check import field_of, settings_problem
from zoo.gym.tui.start.screen import StartScreen


def below(app: GymApp, field: str, lines: int) -> str:
    """The text so many lines below a field, its folder left out."""
    row = app.screen.query_one(field).region.y + lines
    return screen_text(app).splitlines()[row].strip("│ ").rpartition("/")[2]


@pytest.mark.slow
def test_a_missing_file_is_reported_while_its_path_is_typed(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start()
        await shows(pilot, "Examples")
        app.screen.query_one("#path", Input).value = f"{path}x"
        await shows(pilot, "Did you mean")
        app.screen.query_one("#path", Input).value = str(path)
        await shows(pilot, "200 examples")
        assert "Did you mean" not in screen_text(app)
        assert len(asked) == 1

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_a_file_that_is_absent_is_reported_below_its_path(
    drive: Drive, asked: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n")
        await pilot.press(*"absent", "enter")
        await shows(pilot, "absent: no such file", "look at its name")
        assert app.focused is app.screen.query_one("#path", Input)
        assert below(app, "#path", 2) == "absent: no such file"

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_a_refused_start_leaves_the_form_as_it_was(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "200 examples")
        app.screen.query_one("#settings", Input).value = "lr=x"
        await pilot.pause()
        await pilot.press("ctrl+s")
        await shows(pilot, "lr=x: expected a number", "Start training")
        assert below(app, "#settings", 1) == "lr=x: expected a number"
        assert app.focused is app.screen.query_one("#settings")
        assert not app.screen.query_one("#start", Button).disabled
        assert run_folders() == []

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_what_the_engine_refuses_is_shown_below_the_settings_and_starts_nothing(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    async def answer(words: list[str], *, finish: bool = False) -> dict[str, object]:
        asked.append(words)
        if "--print-config" in words and "optim=adamw_8bit" in words:
            raise NotAvailableError("optim: adamw_8bit steps on a CUDA device", hint="optim=lion")
        return fakes.PLANNED if words[0] == "train" else fakes.FOUND

    monkeypatch.setattr(start, "ask_command", answer)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(fakes.rows_file(tmp_path)))
        await shows(pilot, "90 steps")
        app.screen.query_one("#settings", Input).value = "optim=adamw_8bit"
        await pilot.press("ctrl+s")
        await shows(pilot, "adamw_8bit steps on a CUDA device", "optim=lion")
        assert app.screen.query_one("#settings-problem").display
        assert not any("--detach" in words for words in asked)

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_settings_are_listed_by_a_part_of_their_name(drive: Drive, asked: list[list[str]]) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n")
        await pilot.click("#settings")
        await pilot.press(*"lora_rank=8 quanti")
        await shows(pilot, "quantization_bit (2 | 3 | 4 | 6 | 8): the bits", "more: ")
        await pilot.press("space")
        await until(pilot, lambda: "quantization_bit" not in screen_text(app))

    drive(visit, size=(80, 24))


@pytest.mark.slow
def test_a_wrong_setting_is_reported_below_its_field_while_it_is_typed(
    drive: Drive, asked: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n")
        await pilot.click("#settings")
        await pilot.press(*"max_steps=many")
        await shows(pilot, 'max_steps=many: expected a whole number, got "many"')
        assert below(app, "#settings", 1).startswith("max_steps=many:")
        await pilot.press(*["backspace"] * 4, *"90 lora_rnk=8")
        await shows(pilot, "lora_rnk=8: no such setting. Did you mean 'lora_rank'?")
        await pilot.press(*["backspace"] * 4, *"ank=8")
        await until(pilot, lambda: "no such setting" not in screen_text(app))
        assert asked == []

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_a_typed_path_is_inspected_once_it_names_a_file_and_the_focus_stays(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n")
        app.screen.query_one("#path", Input).value = str(path)
        await shows(pilot, "200 examples")
        assert app.focused is app.screen.query_one("#path", Input)
        await pilot.press("enter")
        assert isinstance(app.focused, Button)
        assert len(asked) == 1

    drive(visit, size=(90, 30))


@pytest.mark.parametrize("text", ["~no-such-user/x", "x" * 5000, "~", "'", "."])
@pytest.mark.slow
def test_a_path_that_is_typed_halfway_is_no_error(
    drive: Drive, asked: list[list[str]], text: str
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n")
        app.screen.query_one("#path", Input).value = text
        await pilot.pause(2 * start.PAUSE_S)
        assert app.screen.query_one("#path-problem").display is False
        assert asked == []

    drive(visit, size=(90, 30))


@pytest.mark.slow
def test_a_start_without_a_file_is_refused_at_its_field(
    drive: Drive, asked: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("n", "ctrl+s")
        await shows(pilot, "expected a file of examples, got none")
        assert asked == []

    drive(visit, size=(90, 30))


@pytest.mark.parametrize(
    ("text", "typing", "problem"),
    [
        ("", True, ""),
        ("max_st", True, ""),
        ("max_steps=", True, ""),
        ("max_steps=9 lora", True, ""),
        ("max_steps=9", True, ""),
        ("max_st ", True, "max_st: no such file"),
        ("max_st", False, "max_st: no such file"),
        ("lora_rank=0 seed=x", True, "lora_rank=0: expected"),
        ("--lora_rank 0", True, ""),
    ],
)
def test_settings_are_checked_as_the_command_checks_them(
    text: str, typing: bool, problem: str
) -> None:
    found = settings_problem(text, typing=typing)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


@given(
    st.text(max_size=30)
    | st.sampled_from(["x" * 5000, "seed=" + "[" * 5000, "a=" + "x" * 5000, "~nobody/a.yaml", "."])
    | st.builds("{}={}".format, st.sampled_from(["seed", "dataset", "lora_rank"]), st.text())
)
@pytest.mark.slow
def test_any_text_in_the_settings_is_judged(text: str) -> None:
    assert isinstance(settings_problem(text, typing=True), str)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("/data/a.jsonl:3: no answer", "path"),
        ("a.jsonl:3: no answer", "path"),
        ("lora_rank=0: expected at least 1\nseed=x: expected a number", "settings"),
        ("model 'Qwen/Qwen3-4B' is not on this machine", "model"),
        ("the disk is full", "start"),
    ],
)
def test_an_error_belongs_to_the_field_that_it_names(message: str, field: str) -> None:
    settings = ["lora_rank=0", "seed=x"]
    assert field_of(GymError(message), "/data/a.jsonl", settings) == field


@pytest.mark.slow
def test_all_settings_are_searched_by_name_and_meaning_and_taken_with_a_value(
    drive: Drive, asked: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start()
        await shows(pilot, "Examples")
        app.screen.query_one("#settings", Input).value = "max_steps=5"
        await pilot.press("ctrl+f")
        await shows(pilot, "lora_rank")
        await pilot.press(*"lora_rank", "enter", "enter")
        await shows(pilot, "whole number; 1 to 4096")
        await until(pilot, lambda: app.focused is app.screen.query_one("#value"))
        await pilot.press(*"zero", "enter")
        await shows(pilot, "lora_rank=zero: expected a whole number")
        await pilot.press(*["backspace"] * 4, *"8", "enter")
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, StartScreen)
                and app.screen.query_one("#settings", Input).value == "max_steps=5 lora_rank=8"
            ),
        )

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_a_method_is_chosen_from_a_list_and_becomes_a_setting(
    drive: Drive, asked: list[list[str]]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start()
        await pilot.press("ctrl+t")
        await shows(pilot, "dpo", "prefers the better of two answers", "grpo")
        await pilot.press("down", "down", "down", "enter")
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, StartScreen)
                and app.screen.query_one("#settings", Input).value == "stage=dpo"
            ),
        )

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_a_place_is_gone_to_after_a_yes_where_a_form_would_be_lost(
    drive: Drive, asked: list[list[str]], tmp_path: Path
) -> None:
    path = fakes.rows_file(tmp_path)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.action_start(str(path))
        await shows(pilot, "200 examples")
        app.screen.query_one("#start").focus()
        await pilot.press("1")
        await shows(pilot, "Leave this form?")
        await pilot.press("0", "0", "escape")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        assert app.screen.query_one("#path", Input).value == str(path)
        app.screen.query_one("#settings").focus()
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, ExplainDialog))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        app.screen.query_one("#start").focus()
        await pilot.press("4")
        await shows(pilot, "Leave this form?")
        await pilot.press("y")
        await until(pilot, lambda: app.current_mode == "runs")
        app.action_start()
        await shows(pilot, "Start training")
        app.screen.query_one("#start").focus()
        await pilot.press("1")
        await until(pilot, lambda: app.current_mode == "home")  # nothing stood in it

    drive(visit)
