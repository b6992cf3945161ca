"""The first place."""

from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, shows
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.screens.start import StartScreen


def test_an_empty_home_offers_a_training_first(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Runs: none yet", "memory free", "Models: zen-pico (not here: zen-nano")
        await pilot.press("enter")
        assert isinstance(app.screen, StartScreen)

    drive(visit)


def test_home_offers_to_go_on_with_an_interrupted_run(drive: Drive) -> None:
    run = fakes.new_run()
    fakes.train(run, 1, 80)
    fakes.end(run, "interrupted")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Go on with r0001: zen-pico, interrupted at step 80 of 150")
        await pilot.press("g", "enter")
        await shows(pilot, "Interrupted at step 80 of 150")

    drive(visit)


def test_a_run_that_lost_its_process_is_offered_as_interrupted(drive: Drive) -> None:
    run = fakes.new_run()
    run.identity_file.write_text('{"pid": 999999999, "create_time": 1.0}\n')

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Go on with r0001: zen-pico, interrupted")

    drive(visit)


def test_a_file_dropped_on_home_is_taken_to_a_new_training(
    drive: Drive,
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        app.screen.post_message(Paste("'/no such/file.jsonl'"))
        await pilot.pause()
        assert app.screen.query_one("#path", Input).value == "'/no such/file.jsonl'"

    drive(visit)


def test_a_click_on_a_place_goes_there(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.click("Bar", offset=(24, 0))
        await shows(pilot, "No runs yet. Press n")

    drive(visit)


def test_a_key_that_goes_to_a_place_closes_what_is_open_there(drive: Drive) -> None:
    run = fakes.new_run()
    fakes.train(run, 1, 5)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await pilot.press("2")
        await shows(pilot, "1 run, 1 with a process")

    drive(visit)
