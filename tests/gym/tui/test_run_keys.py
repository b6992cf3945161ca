"""The keys and clicks of a run's screen: they pause, stop and park it, and say why they cannot."""

import json

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from tests.gym.tui.test_run import run
from zoo.gym.jobs import Run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.export import ExportScreen
from zoo.gym.tui.runs.run import RunScreen

__all__ = ["run"]  # a fixture

pytestmark = pytest.mark.slow


def test_space_asks_for_a_pause_and_takes_it_back(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press("space")
        await shows(pilot, "pausing after this step")
        run.events.emit("state", state="paused")
        await shows(pilot, "Paused at step 60")
        await pilot.press("space")
        await until(pilot, lambda: run.control.pending() is None)

    drive(visit)


def test_a_second_space_takes_a_pause_back_before_it_begins(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press("space")
        await shows(pilot, "pausing after this step, space cancels")
        await pilot.press("space")
        await until(pilot, lambda: run.control.pending() is None)
        await shows(pilot, "r0001 does not pause", "about 36 s left")

    drive(visit)


def test_a_run_with_models_alone_promises_no_resume(drive: Drive, run: Run) -> None:
    fakes.keep_only_models(run)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training", "x Stop")
        assert "P Park" not in screen_text(app)
        await pilot.press("x")
        await shows(pilot, "It can then be", "but not resumed: save_only_model")
        await pilot.press("escape")
        fakes.end(run, "interrupted", request="stop")
        await shows(pilot, "it cannot be resumed (save_only_model), F makes a result", "F Finish")
        await shows(pilot, "Next: F makes a result of its best step (60), D deletes it")
        assert "space" not in screen_text(app)
        await pilot.press("escape", "1")
        await shows(pilot, "Open r0001")
        assert "Resume r0001" not in screen_text(app)

    drive(visit)


def test_only_a_result_can_be_exported_or_chatted_with(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        assert "e Export" not in screen_text(app)
        await pilot.press("e")
        await shows(pilot, "Export is not possible: r0001 has no result yet")
        fakes.end(run, "done")
        await shows(pilot, "c Compare", "e Export")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, ExportScreen))

    drive(visit)


def test_stop_asks_first_and_a_no_changes_nothing(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press("x")
        await shows(pilot, "Stop run r0001?", "it can be resumed")
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert isinstance(app.screen, RunScreen)
        assert run.control.pending() is None

    drive(visit)


@pytest.mark.parametrize(("keys", "asked"), [(("x", "y"), "stop"), (("P",), "park")])
def test_stop_and_park_request_it_of_the_worker(
    drive: Drive, run: Run, keys: tuple[str, ...], asked: str
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press(*keys)
        await until(pilot, lambda: run.control.pending() == asked)
        await shows(pilot, "after this step")

    drive(visit)


def test_a_halted_process_is_offered_to_be_killed(
    drive: Drive, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[str] = []
    monkeypatch.setattr("zoo.gym.tui.runs.actions.has_halted_worker", lambda _: True)
    monkeypatch.setattr("zoo.gym.jobs.kill", lambda run: killed.append(run.id))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press("x")
        await shows(pilot, f"Kill run {run.id}?", "suspended (SIGSTOP)")
        await pilot.press("y")
        await until(pilot, lambda: killed == [run.id])

    drive(visit)


def test_a_run_whose_settings_were_edited_is_not_resumed_from_here_either(
    drive: Drive, run: Run
) -> None:
    fakes.end(run, "interrupted")
    settings = {"model_name_or_path": "zen-pico", "dataset": ["/data/rows.jsonl"], "seed": 7}
    run.env_file.write_text(json.dumps({"settings": settings}))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Interrupted")
        await pilot.press("space")
        said = "seed was edited since the run began: expected 7, got 42"
        await until(pilot, lambda: any(said in one.message for one in app._notifications))

    drive(visit, size=(140, 40))


def test_a_click_on_yes_stops_the_run(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press("x")
        await pilot.click("#yes")
        await until(pilot, lambda: run.control.pending() == "stop")

    drive(visit)


def test_a_key_that_cannot_act_now_says_why(drive: Drive, run: Run) -> None:
    run.control.request("stop")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "saving and stopping after this step")
        await pilot.press("F")
        await shows(pilot, "Finish is not possible: r0001 is still saving; wait until")
        fakes.end(run, "interrupted", request="stop")
        await shows(pilot, "Stopped at step 60", "F Finish")
        await pilot.press("x")
        await shows(pilot, "Stop is not possible: r0001 has ended")

    drive(visit)


def test_a_key_that_acts_gives_no_reason_against_it(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training", "space Pause")
        await pilot.press("space")
        await shows(pilot, "pausing after this step")
        assert "not possible" not in screen_text(app)

    drive(visit)
