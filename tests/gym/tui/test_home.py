"""The first place."""

from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows
from zoo.gym.jobs import list_runs
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.home import text as home_text
from zoo.gym.tui.home.text import runs_content
from zoo.gym.tui.start.screen import StartScreen


@pytest.mark.slow
def test_an_empty_home_offers_a_training_first(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(
            pilot,
            "None yet. A run is one training",
            "memory",
            "models zen-pico (3 more in Models)",
            "offline",
        )
        await pilot.press("enter")
        assert isinstance(app.screen, StartScreen)

    drive(visit)


@pytest.mark.slow
def test_enter_on_a_stopped_run_resumes_it_and_opens_it(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, resumed = fakes.trained(80), list[str]()
    fakes.end(run, "interrupted", request="stop")
    monkeypatch.setattr("zoo.gym.jobs.resume", lambda run: resumed.append(run.id))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Resume r0001", "zen-pico, stopped at step 80 of 150")
        await pilot.press("g", "enter")
        await shows(pilot, "Stopped at step 80 of 150", "r0001 is resumed")
        assert resumed == ["r0001"]

    drive(visit)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["paused", "interrupted"])
def test_a_run_stopped_long_ago_is_not_offered_and_a_paused_one_is(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    run = fakes.trained(80)
    run.events.emit("state", state=state)
    monkeypatch.setattr(home_text, "RECENT_S", -60.0)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "All runs (1)")
        assert ("Resume r0001" in screen_text(app)) == (state == "paused")

    drive(visit)


@pytest.mark.slow
def test_a_run_that_lost_its_process_is_offered_as_interrupted(drive: Drive) -> None:
    run = fakes.new_run()
    run.identity_file.write_text('{"pid": 999999999, "create_time": 1.0}\n')

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Resume r0001", "zen-pico, interrupted")

    drive(visit)


@pytest.mark.slow
def test_a_file_dropped_on_home_is_taken_to_a_new_training(
    drive: Drive,
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.screen.post_message(Paste("'/no such/file.jsonl'"))
        await pilot.pause()
        assert app.screen.query_one("#path", Input).value == "'/no such/file.jsonl'"

    drive(visit)


@pytest.mark.slow
def test_a_click_on_a_place_goes_there(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.click("Bar", offset=(38, 0))
        await shows(pilot, "No runs yet.")

    drive(visit)


@pytest.mark.slow
def test_a_key_that_goes_to_a_place_closes_what_is_open_there(drive: Drive) -> None:
    run = fakes.new_run()
    fakes.train(run, 1, 5)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await pilot.press("4")
        await shows(pilot, "1 run, 1 active")

    drive(visit)


def test_a_name_with_marks_of_markup_is_shown_as_it_is(home: Path) -> None:
    run = fakes.trained(20)
    rows = list_runs()
    shown = runs_content(rows, {run.id: "[b[red][/]"}, {})
    assert shown.plain.startswith(f"{run.id} [b[red][/] running")
