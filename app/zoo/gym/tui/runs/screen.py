"""All runs in a table, newest first, each with its state."""

import asyncio
import time
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.events import Paste
from textual.widgets import Footer, Static

from zoo.gym.errors import GymError
from zoo.gym.humanize import figure
from zoo.gym.jobs import Run, RunRow, displayed_state, list_runs
from zoo.gym.terminal import visible
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.runs.chart import LossChart
from zoo.gym.tui.runs.controls import ControlScreen
from zoo.gym.tui.runs.curves import Curves
from zoo.gym.tui.runs.names import run_names
from zoo.gym.tui.states import colour_of
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import RowTable
from zoo.gym.tui.widgets.spark import spark

READ_EVERY_S = 2.0
MOST_ROWS = 500
COLUMNS = ("run", "state", "step", "loss", "model", "method", "updated")
MOST_CURVES = 40
"""The newest runs, whose losses are drawn."""
CURVE = 8
"""The characters of a curve."""

LOADING = "Reading the runs ..."
EMPTY = """\
No runs yet.

A run is one training: a folder with its settings, log and result, and a process of its own \
that this window can leave.

Press n to start one from a file of examples, or drop the file here.

Without a file: zoo-gym demo trains the built-in model in minutes (Home, Demo)."""


class RunsScreen(ControlScreen):
    """Lists the runs; its keys act on the one under the cursor."""

    HELP = """
Every training is a run: a folder and, while it is training, a separate process \
that keeps running when you close this app or the terminal. Enter opens one, with its chart.

Queued, running and paused runs have a process.

Stopped, parked and interrupted (killed) runs have none: space resumes one from its last \
checkpoint, F makes a result of its best step so far, D deletes it. With save_only_model a run \
cannot be resumed.

A failed run was ended by an error: open it to read which.
"""

    CSS_PATH = "runs.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "app.merge", "Merge", show=False, tooltip="one model of several runs"),
        Binding("t", "app.tune", "Tune", show=False, tooltip="search settings by trial runs"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[RunRow] = []
        self.names: dict[str, str] = {}
        self._curves, self._losses = Curves(), dict[str, list[float]]()
        self._was_read = False

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar()
        with Vertical(id="none", classes="panel empty") as box:
            box.border_title = "Runs"
            yield Static(LOADING, id="note", markup=False)
        with Container(id="list"):
            yield RowTable(cursor_type="row", classes="panel fills")
            yield LossChart(id="preview")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Reads the runs from time to time; not while another screen is shown."""
        table = self._table
        for column in COLUMNS:
            is_number = column == "step"
            label = Text(column, justify="right" if is_number else "left")
            table.add_column(label, key=column)
        self._read_if_shown()
        self.set_interval(READ_EVERY_S, self._read_if_shown)

    def on_screen_resume(self) -> None:
        """Reads the runs at once when the screen comes back."""
        self._read_if_shown()

    async def on_data_table_row_selected(self) -> None:
        """Opens the run under the cursor."""
        if row := self._current:
            await app_of(self).action_watch(row.id)

    def controlled(self) -> tuple[Run, str] | None:
        """Returns the run under the cursor, which the keys act on."""
        row = self._current
        return (Run(Path(row.folder)), row.state) if row else None

    def removed(self) -> None:
        """Reads the list again."""
        self._read_if_shown()

    def renamed(self) -> None:
        """Reads the list again."""
        self._read_if_shown()

    def on_data_table_row_highlighted(self) -> None:
        """Offers what the new row can do, and draws its curve."""
        self.refresh_bindings()
        self._preview()

    def _preview(self) -> None:
        """Draws the losses of the run under the cursor where the screen is high enough."""
        chart, row = self.query_one(LossChart), self._current
        losses = self._losses.get(row.id, []) if row else []
        chart.set_class(not losses, "-empty")
        if row is not None and losses:
            chart.show(list(enumerate(losses, start=1)), ())
            chart.border_title = f"[$success]\u2812\u2824[/] training loss of {row.id}"

    def on_paste(self, event: Paste) -> None:
        """Opens a new training with a file that is dropped on the terminal."""
        app_of(self).action_start(pasted_path(event.text))

    @property
    def _table(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def _current(self) -> RunRow | None:
        at = self._table.cursor_row if self.is_mounted else -1
        return self.rows[at] if 0 <= at < len(self.rows) else None

    def _read_if_shown(self) -> None:
        if self.app.screen is self:
            self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        note = self.query_one("#note", Static)
        try:
            rows = await asyncio.to_thread(list_runs)
            names = await asyncio.to_thread(run_names, rows[:MOST_ROWS])
            losses = await asyncio.to_thread(self._curves.read, rows[:MOST_CURVES])
        except (GymError, OSError) as error:
            self._was_read = False
            note.update(visible(f"The runs cannot be read: {error}"))
            self.query_one("#none").display = True
            return
        app_of(self).look(rows)
        shown = self.rows, self.names, self._losses
        if (rows[:MOST_ROWS], names, losses) != shown or not self._was_read:
            self.names, self._losses, self._was_read = names, losses, True
            self._show(rows)
            self.query_one("#none").display = not rows
            note.update(EMPTY)
            self._table.border_title, self._table.border_subtitle = "Runs", _note(rows)

    def _show(self, rows: list[RunRow]) -> None:
        """Updates the cells if the list is the same, else the whole list; the cursor stays."""
        table, previous, chosen = self._table, self.rows, self._current
        self.rows = rows[:MOST_ROWS]
        ids, cells = [row.id for row in self.rows], [self._cells(row) for row in self.rows]
        table.fit(cells)
        if ids != [row.id for row in previous]:
            table.clear()
            for run_id, row in zip(ids, cells, strict=True):
                table.add_row(*row, key=run_id)
            if chosen is not None and chosen.id in ids:
                table.move_cursor(row=ids.index(chosen.id))
        else:
            for run_id, row in zip(ids, cells, strict=True):
                for column, cell in zip(COLUMNS, row, strict=True):
                    table.update_cell(run_id, column, cell, update_width=True)
        table.display = bool(rows)
        self.refresh_bindings()
        self._preview()

    def _cells(self, row: RunRow) -> tuple[Text, ...]:
        name = f"{row.id} {self.names.get(row.id, '')}".rstrip()
        step = f"{row.step} of {row.steps}" if row.steps else str(row.step)
        at = day_or_hour(row.updated) if row.updated else ""
        state = displayed_state(Run(Path(row.folder)), row.state, row.request)
        losses, colours = self._losses.get(row.id, []), self.app.theme_variables
        curve = f"{spark(losses, CURVE):<{CURVE}} {figure(losses[-1]):>6}" if losses else ""
        return (
            Text(visible(name)),
            Text(state, style=colours[colour_of(state)]),
            Text(step, justify="right"),
            Text(curve),
            Text(visible(row.model or row.fault or "")),
            Text(visible(row.stage or "")),
            Text(at),
        )


def day_or_hour(seconds: float) -> str:
    """Returns the hour of a time today, and the day of another one."""
    day, hour = (time.strftime(form, time.localtime(seconds)) for form in ("%d %b", "%H:%M"))
    return hour if day == time.strftime("%d %b") else day


def _note(rows: list[RunRow]) -> str:
    live = sum(row.state in {"queued", "running", "paused"} for row in rows)
    hidden = f", the newest {MOST_ROWS} shown" if len(rows) > MOST_ROWS else ""
    return f"{len(rows)} {'run' if len(rows) == 1 else 'runs'}{hidden}, {live} active"
