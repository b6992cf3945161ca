"""The list of runs."""

import json

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import DataTable

from tests.gym.cli.test_steering import EVIL, steers
from tests.gym.tui import fakes
from tests.gym.tui.conftest import Drive, screen_text, shows, until
from zoo.gym.jobs import Run, create_run
from zoo.gym.tui.app import GymApp
from zoo.gym.tui.runs.run import RunScreen
from zoo.gym.tui.widgets.lists import RowTable


def running(last: int = 20) -> Run:
    """A run that works, in our own process."""
    run = fakes.new_run()
    fakes.train(run, 1, last)
    return run


@pytest.mark.slow
def test_a_step_that_comes_moves_the_list_and_not_the_cursor(drive: Drive) -> None:
    older, newer = running(3), running(5)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, f"{newer.id}  running  5 of 150")
        await pilot.press("j")
        fakes.train(older, 4, 9)
        await pilot.press("1", "4")
        await shows(pilot, f"{older.id}  running  9 of 150")
        assert app.screen.query_one(DataTable).cursor_row == 1

    drive(visit)


@pytest.mark.slow
def test_a_number_that_grows_by_a_digit_is_shown_whole(drive: Drive) -> None:
    run = fakes.new_run(15)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, f"{run.id}  running  0 of 15")
        run.events.emit("step", step=170, steps=1500, loss=1.0, lr=1.0)
        await pilot.press("1", "4")
        await shows(pilot, f"{run.id}  running  170 of 1500")

    drive(visit)


@pytest.mark.slow
def test_text_of_a_run_cannot_control_the_terminal(drive: Drive) -> None:
    run = create_run(f"model_name_or_path: {json.dumps(EVIL)}\ndataset: [a]\n", {})
    run.events.emit("warn", message=EVIL)
    run.events.emit("step", step=1, loss=EVIL, lr=EVIL)
    run.events.emit("end", state="failed", exit_code=1, message=EVIL, hint=EVIL)
    run.worker_log.write_text(EVIL, errors="surrogatepass")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        for keys, shown in (("4", "x1b]0;owned"), ("enter", "x1b]0;owned"), ("l", "x1b]0;owned")):
            await pilot.press(keys)
            await shows(pilot, shown)
            assert not steers(screen_text(app))

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_a_damaged_run_is_shown_and_opens_in_a_sentence(drive: Drive) -> None:
    running()
    damaged = running()
    damaged.events.path.unlink()
    damaged.events.path.mkdir()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, f"{damaged.id}  damaged", "events.jsonl: not a regular file", "r0001")
        await pilot.press("enter")
        await shows(pilot, "This run cannot be read")

    drive(visit, size=(120, 36))


@pytest.mark.slow
def test_columns_are_as_wide_as_their_cells_before_anything_is_drawn(drive: Drive) -> None:
    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        table = RowTable()
        table.add_columns("run", "state")
        rows = [("r0001 a-long-name", "done"), ("r2", "\u732b\u732b\u732b")]
        table.fit([[Text(cell) for cell in row] for row in rows])  # two cells each
        assert [column.get_render_width(table) for column in table.ordered_columns] == [
            17 + 2,
            6 + 2,
        ]

    drive(visit)


@pytest.mark.slow
def test_enter_opens_the_run_under_the_cursor(drive: Drive) -> None:
    older, _ = running(), running()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, older.id)
        await pilot.press("G", "enter")
        assert isinstance(app.screen, RunScreen)
        assert app.screen.run.id == older.id

    drive(visit)


@pytest.mark.slow
def test_a_double_click_opens_a_run(drive: Drive) -> None:
    run = running()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, run.id)
        await pilot.click(DataTable, offset=(3, 2), times=2)
        assert isinstance(app.screen, RunScreen)

    drive(visit)


@pytest.mark.slow
def test_space_in_the_list_pauses_the_run(drive: Drive) -> None:
    run = running()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, run.id)
        await pilot.press("space")
        await until(pilot, lambda: run.control.pending() == "pause")

    drive(visit)


@pytest.mark.slow
def test_a_stopped_a_parked_and_a_killed_run_are_called_so(drive: Drive) -> None:
    for request in ("stop", "park", None):
        fakes.end(running(), "interrupted", request=request)

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "r0001  stopped  ", "r0002  parked  ", "r0003  interrupted  ")

    drive(visit)


@pytest.mark.parametrize(("key", "asked"), [("F", "Finish run r0001 now?"), ("D", "Delete run")])
@pytest.mark.slow
def test_a_stopped_run_is_finished_or_deleted_after_a_yes_only(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, key: str, asked: str
) -> None:
    run, done = running(), list[str]()
    fakes.end(run, "interrupted", request="stop")
    monkeypatch.setattr("zoo.gym.jobs.finish", lambda run: done.append(run.id))
    monkeypatch.setattr("zoo.gym.jobs.remove", lambda run: done.append(run.id))

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "stopped", "Finish")
        for answer in ("enter", "y"):
            assert done == []
            await pilot.press(key)
            await shows(pilot, asked)
            await pilot.press(answer)
        await until(pilot, lambda: done == ["r0001"])

    drive(visit)


@pytest.mark.slow
def test_a_deleted_run_is_gone_from_the_list_and_the_disk(drive: Drive) -> None:
    run, other = running(), running()
    fakes.end(run, "done")
    run.identity_file.unlink()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await app.action_watch(run.id)
        await shows(pilot, "Done, step 20")
        await pilot.press("D")
        await shows(pilot, "Delete run r0001, ", "checkpoints and result")
        await pilot.press("y")
        await shows(pilot, "1 run, 1 active", other.id)
        assert not run.folder.exists()

    drive(visit)


@pytest.mark.slow
def test_a_run_is_renamed_and_shown_by_its_name_everywhere(drive: Drive) -> None:
    run = running()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, f"{run.id}  running")
        await pilot.press("R", *"poems", "enter")
        await shows(pilot, "r0001 poems  running", "r0001 is named poems")
        await pilot.press("enter")
        await shows(pilot, "> r0001 poems  zen-pico")
        await pilot.press("R", *"songs", "enter")
        await shows(pilot, "> r0001 songs  zen-pico")
        await pilot.press("1")
        await shows(pilot, "Watch r0001 songs", "zen-pico, running")

    drive(visit)


@pytest.mark.slow
def test_a_name_that_cannot_be_is_refused_in_a_sentence(drive: Drive) -> None:
    run = running()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, f"{run.id}  running")
        await pilot.press("R", *"7", "enter")
        await shows(pilot, "run name '7': expected up to 64 letters", "Enter saves")
        await pilot.press("backspace", "x")
        await until(pilot, lambda: "run name" not in screen_text(app))
        await pilot.press("escape")
        assert run.name is None

    drive(visit)


@pytest.mark.slow
def test_a_run_with_a_process_is_not_offered_to_be_deleted(drive: Drive) -> None:
    running()

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "running", "Stop")
        assert not {"Delete", "Finish"} & set(screen_text(app).splitlines()[-1].split())

    drive(visit)


@pytest.mark.slow
def test_a_done_run_is_offered_neither_pause_nor_stop(drive: Drive) -> None:
    run = running()
    fakes.end(run, "done")

    async def visit(app: GymApp, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "done", "Open")
        bottom = screen_text(app).splitlines()[-1]
        assert not {"Pause", "Resume", "Stop"} & set(bottom.split())

    drive(visit)
