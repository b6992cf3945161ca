"""One run."""

import json
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.jobs import Run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.chart import LossChart
from zoo.gym.tui.runs.run import RunScreen


@pytest.fixture
def run() -> Run:
    """A run at step 60 of 150 whose worker is this process."""
    run = fakes.new_run()
    fakes.train(run, 1, 60)
    return run


def curve(app: GymApp) -> list[tuple[int, float]]:
    """The points that the open run has drawn."""
    assert isinstance(app.screen, RunScreen)
    return list(app.screen.query_one(LossChart).curves[0])


@pytest.mark.slow
def test_the_whole_curve_is_there_from_the_first_step(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "step 60 of 150", "about 36 s left", "you can close this window")
        assert [step for step, _ in curve(app)] == list(range(1, 61))

    drive(visit)


@pytest.mark.slow
def test_steps_that_come_are_drawn(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "step 60 of 150")
        fakes.train(run, 61, 90)
        await shows(pilot, "step 90 of 150", "saved at step 90")
        assert len(curve(app)) == 90

    drive(visit)


@pytest.mark.slow
def test_the_text_on_the_figures_has_one_height_however_long(drive: Drive, run: Run) -> None:
    # another height is laid out anew, which is a second drawing after each measurement
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "step 60 of 150", "held-out")
        side, meaning = (app.screen.query_one(part) for part in ("#side", "#meaning"))
        assert meaning.region.bottom == side.content_region.bottom

    drive(visit)


@pytest.mark.slow
def test_half_a_line_waits_for_its_rest(drive: Drive, run: Run) -> None:
    event: dict[str, Any] = {"v": 1, "seq": 999, "t": 1.0, "kind": "step", "step": 61, "steps": 150}
    line = json.dumps(event | {"loss": 0.5})

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        with run.events.path.open("a") as file:
            file.write(line[:30])
            file.flush()
            await shows(pilot, "step 60 of 150")
            await pilot.pause(0.3)
            assert len(curve(app)) == 60
            file.write(line[30:] + "\n")
        await shows(pilot, "step 61 of 150")

    drive(visit)


@pytest.mark.slow
def test_a_run_without_a_checkpoint_offers_no_result(drive: Drive) -> None:
    run = fakes.new_run()
    fakes.train(run, 1, 4)
    fakes.end(run, "interrupted")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Interrupted before its first checkpoint; space starts it again")
        await shows(pilot, "Next: space resumes it, D deletes it", "space Resume")
        assert "F Finish" not in screen_text(app)

    drive(visit)


@pytest.mark.slow
def test_a_worker_that_dies_is_reported_while_its_run_is_open(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        run.identity_file.write_text('{"pid": 999999999, "create_time": 1.0}\n')
        await shows(pilot, "Interrupted at step 60", "the worker is gone", "Resume")

    drive(visit)


@pytest.mark.slow
def test_a_failed_run_shows_the_reason_the_remedy_and_its_log(drive: Drive, run: Run) -> None:
    fakes.end(run, "failed", message="the disk is full", hint="free some space on that disk")
    run.worker_log.write_text("Traceback: no space left\n")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Failed at step 60 of 150: the disk is full", "free some space")
        await pilot.press("l")
        await shows(pilot, "Traceback: no space left")
        await pilot.press("escape")
        assert isinstance(app.screen, RunScreen)

    drive(visit)


@pytest.mark.slow
def test_a_done_run_shows_its_gain_and_the_next_steps(drive: Drive, run: Run) -> None:
    fakes.train(run, 61, 150)
    fakes.end(run, "done")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Done, step 150 of 150; held-out loss from 3.9 to 0.7034")
        await shows(pilot, "zoo-gym chat --run r0001", "100%")

    drive(visit, size=(120, 36))


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
@pytest.mark.slow
def test_chart_figures_meaning_and_keys_fit_every_size(
    drive: Drive, run: Run, size: tuple[int, int]
) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "training loss  x held-out loss", "best held-out", "The loss is")
        assert app.screen.query_one(LossChart).size.height >= 8
        keys = ("space", "Park", "Stop", "Log", "Esc", "New run", "Help", "q Quit")
        await until(pilot, lambda: all(key in screen_text(app).splitlines()[-1] for key in keys))

    drive(visit, size=size)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
@pytest.mark.slow
def test_every_key_of_a_stopped_run_fits_the_bottom_line(
    drive: Drive, run: Run, size: tuple[int, int]
) -> None:
    fakes.end(run, "interrupted", request="stop")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Stopped at step 60", "F makes a result of its best step")
        keys = ("space Resume", "F Finish", "l Log", "n New run", "? Help", "q Quit")
        await until(pilot, lambda: all(key in screen_text(app).splitlines()[-1] for key in keys))

    drive(visit, size=size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_the_metrics_that_a_method_watches_stand_below_the_loss(
    drive: Drive, run: Run, size: tuple[int, int]
) -> None:
    run.events.emit("plan", steps=150, watch=["rewards/margin", "accuracy"])
    found = {"rewards/margin": 0.3125, "accuracy": 0.75, "other": 9.0}
    run.events.emit("step", step=61, steps=150, loss=1.0, metrics=found)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "rewards/margin 0.3125", "accuracy 0.75", "loss 1", "best held-out")
        assert "other" not in screen_text(app)

    drive(visit, size=size)


@pytest.mark.slow
def test_a_run_without_a_step_says_what_it_is_doing(drive: Drive) -> None:
    run = fakes.new_run()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Preparing:", "No step has finished yet")

    drive(visit)


@pytest.mark.slow
def test_a_run_that_waits_for_a_device_says_behind_which(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        run = fakes.new_run()
        run.events.emit("state", state="queued", message="waiting for cpu behind r0007", hint="-")
        await app.action_watch(run.id)
        await shows(pilot, "Queued: waiting for cpu behind r0007", "Stop")

    drive(visit)


@pytest.mark.slow
def test_help_names_the_keys_that_work_here_and_closes(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Training")
        await pilot.press("question_mark")
        await shows(pilot, "Lower is better", "Pause", "ctrl+p")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_help_of_a_run_that_learns_lessons_is_of_lessons(drive: Drive) -> None:
    run = fakes.lessons_run(done=False)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Learning lessons")
        await pilot.press("question_mark")
        await shows(pilot, "changes no weights", "ctrl+p")
        assert "Lower is better" not in screen_text(app)
        await pilot.press("escape", "x")
        await shows(pilot, "keeps all answers it has received")
        assert "checkpoint" not in screen_text(app)

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_a_run_that_makes_its_result_offers_no_training(drive: Drive, run: Run) -> None:
    run.env_file.write_text(json.dumps({"finish_at": 60}))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await shows(pilot, "Watch r0001", "zen-pico, finishing at step 60")
        await app.action_watch(run.id)
        await shows(pilot, "Making its result at step 60; you can close this window")
        text = screen_text(app)
        assert not [word for word in ("Training", "Pause", "Park", "Stop") if word in text]

    drive(visit)


@pytest.mark.slow
def test_the_chart_names_the_unit_of_the_loss_if_it_has_one(drive: Drive, run: Run) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "held-out loss  nats/token, by step")
        run.events.emit("plan", steps=150, choices=[], loss_unit="")
        await shows(pilot, "held-out loss  by step")

    drive(visit)
