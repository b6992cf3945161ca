"""The first place."""

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.screens import home
from zoo.gym.tui.screens.start import StartScreen


@pytest.mark.slow
def test_an_empty_home_offers_a_training_first(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(
            pilot,
            "Runs: none yet",
            "memory free",
            "Models: zen-pico (not downloaded: smollm2, zen-nano",
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
        await shows(pilot, "Resume r0001: zen-pico, stopped at step 80 of 150")
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
    monkeypatch.setattr(home, "RECENT_S", -60.0)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "All runs (1)")
        assert ("Resume r0001" in screen_text(app)) == (state == "paused")

    drive(visit)


@pytest.mark.slow
def test_a_run_that_lost_its_process_is_offered_as_interrupted(drive: Drive) -> None:
    run = fakes.new_run()
    run.identity_file.write_text('{"pid": 999999999, "create_time": 1.0}\n')

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Resume r0001: zen-pico, interrupted")

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
        await pilot.click("Bar", offset=(24, 0))
        await shows(pilot, "No runs yet. Press n")

    drive(visit)


@pytest.mark.slow
def test_a_key_that_goes_to_a_place_closes_what_is_open_there(drive: Drive) -> None:
    run = fakes.new_run()
    fakes.train(run, 1, 5)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await pilot.press("2")
        await shows(pilot, "1 run, 1 active")

    drive(visit)
