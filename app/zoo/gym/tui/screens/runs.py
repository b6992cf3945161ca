"""All runs in a table, newest first, each with what it is doing now."""

import asyncio
import time
from pathlib import Path
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.widgets import Footer, Static

from zoo.gym.errors import GymError
from zoo.gym.jobs import Run, RunRow, State, list_runs
from zoo.gym.terminal import visible
from zoo.gym.tui import run_actions
from zoo.gym.tui.app import app_of
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import RowTable

LOOK_S = 2.0
MOST_ROWS = 500
COLUMNS = ("run", "state", "step", "model", "last heard of")

LOADING = "Reading the runs ..."
EMPTY = "No runs yet. Press n to start one from a file of examples, or drop the file here."


class RunsScreen(GymScreen):
    """Lists the runs and steers the one under the cursor."""

    HELP = """
Every training is a run: a folder and, while it works, a process of its own \
that goes on when you close this app or the terminal. Enter opens one, with its chart.

queued, running and paused runs have a process.

An interrupted run was stopped, parked or killed: space goes on from its last checkpoint.

A failed run was ended by an error: open it to read which.
"""
    CSS: ClassVar[str] = """
    RunsScreen #note { padding: 0 1; height: auto; margin-bottom: 1; }
    RunsScreen RowTable { height: 1fr; margin: 0 1; background: $background; }
    RunsScreen RowTable:focus { background-tint: transparent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause"),
        Binding("space", "resume", "Resume"),
        Binding("P", "park", "Park"),
        Binding("x", "stop", "Stop"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[RunRow] = []

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar()
        yield Static(LOADING, id="note", markup=False)
        yield RowTable(cursor_type="row", zebra_stripes=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begins to look; while another screen is shown it does not."""
        table = self._table
        for column in COLUMNS:
            table.add_column(column, key=column)
        self._look_if_shown()
        self.set_interval(LOOK_S, self._look_if_shown)

    def on_screen_resume(self) -> None:
        """Looks at once when the screen comes back."""
        self._look_if_shown()

    async def on_data_table_row_selected(self) -> None:
        """Opens the run under the cursor."""
        if row := self._current:
            await app_of(self).action_watch(row.id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what can be done to the run under the cursor."""
        del parameters
        row = self._current
        return run_actions.is_offered(action, cast("State", row.state) if row else None)

    def on_data_table_row_highlighted(self) -> None:
        """Offers what the new row can do."""
        self.refresh_bindings()

    def on_paste(self, event: Paste) -> None:
        """Takes a file that is dropped on the terminal as one to train on."""
        app_of(self).action_start(pasted_path(event.text))

    def action_pause(self) -> None:
        """Pauses the run under the cursor."""
        if row := self._current:
            run_actions.pause(self, _run(row))

    def action_resume(self) -> None:
        """Lets the run under the cursor go on."""
        if row := self._current:
            run_actions.resume(self, _run(row))

    def action_park(self) -> None:
        """Parks the run under the cursor."""
        if row := self._current:
            run_actions.park(self, _run(row))

    def action_stop(self) -> None:
        """Stops the run under the cursor, after a question."""
        if row := self._current:
            run_actions.stop(self, _run(row))

    @property
    def _table(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def _current(self) -> RunRow | None:
        at = self._table.cursor_row if self.is_mounted else -1
        return self.rows[at] if 0 <= at < len(self.rows) else None

    def _look_if_shown(self) -> None:
        if self.app.screen is self:
            self._look()

    @work(exclusive=True)
    async def _look(self) -> None:
        note = self.query_one("#note", Static)
        try:
            rows = await asyncio.to_thread(list_runs)
        except (GymError, OSError) as error:
            note.update(visible(f"The runs cannot be read: {error}"))
            return
        if rows != self.rows or not rows:
            self._show(rows)
        note.update(_note(rows))

    def _show(self, rows: list[RunRow]) -> None:
        """Rewrites the cells where the list is the same, else the list, keeping the cursor."""
        table, before, chosen = self._table, self.rows, self._current
        self.rows = rows[:MOST_ROWS]
        ids = [row.id for row in self.rows]
        if ids != [row.id for row in before]:
            table.clear()
            for row in self.rows:
                table.add_row(*_cells(row), key=row.id)
            if chosen is not None and chosen.id in ids:
                table.move_cursor(row=ids.index(chosen.id))
        else:
            for row in self.rows:
                for column, cell in zip(COLUMNS, _cells(row), strict=True):
                    table.update_cell(row.id, column, cell, update_width=True)
        table.display = bool(rows)
        self.refresh_bindings()


def _run(row: RunRow) -> Run:
    return Run(Path(row.folder))


def _cells(row: RunRow) -> tuple[str, ...]:
    step = f"{row.step} of {row.steps}" if row.steps else str(row.step)
    at = time.strftime("%d %b %H:%M", time.localtime(row.updated)) if row.updated else ""
    return row.id, row.state, step, visible(row.model or row.fault or ""), at


def _note(rows: list[RunRow]) -> str:
    if not rows:
        return EMPTY
    live = sum(row.state in {"queued", "running", "paused"} for row in rows)
    shown = f", the newest {MOST_ROWS} shown" if len(rows) > MOST_ROWS else ""
    return f"{len(rows)} {'run' if len(rows) == 1 else 'runs'}{shown}, {live} with a process"
