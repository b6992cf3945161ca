"""What a file of examples would teach: lengths, faults, and its rows one by one."""

import asyncio
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Paste
from textual.widgets import Footer, Input, Select, Static

from zoo.gym.config.stages import DEFAULT
from zoo.gym.errors import GymError
from zoo.gym.jobs.command import ask_command
from zoo.gym.terminal import visible
from zoo.gym.tui.data import text as texts
from zoo.gym.tui.data.lessons import LessonFile, LessonsPanel, lessons_in
from zoo.gym.tui.data.row_file import RowFile, open_rows
from zoo.gym.tui.dialogs.browse import BrowseDialog
from zoo.gym.tui.machine import available_models
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.paste import absolute_path, is_file, pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.lesson_forms import importing
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.fitted import Fitted
from zoo.gym.tui.widgets.path_field import PathField

PAGE = 20
"""The rows that are read as the model reads them at once."""
AHEAD = 4
"""So many rows before the end of them, the next ones are read."""
MOST_MATCHES = 10_000

SUFFIXES = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet", ".txt", ".md", ".gz")

ShownRow = Mapping[str, Any]


class DataScreen(GymScreen):
    """Inspects a file with the tokenizer of a model, and shows its rows."""

    HELP = """
Drop a file on the terminal, or type its path; Tab completes it. The file is read on this \
machine, with the tokenizer and the chat template of the model that you choose.

Rows: what the model learns is bright, what it only reads is dim. Arrow keys go from row to row; \
/ shows only rows with a text.

Tokens: bars beyond the cut are amber. A row that is longer loses its end; one whose answer is \
cut off has nothing to learn.

f writes a copy beside the file without bad and repeated rows. The file itself is never changed.

A file of lessons has no rows: its lessons are shown, and i imports them.
"""
    CSS_PATH = "data.tcss"
    AUTO_FOCUS: ClassVar[str | None] = "#empty"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p,enter", "path", "Path", key_display="p", tooltip="type the path of a file"),
        Binding("right,l", "next", "Row", key_display="← →", tooltip="the next row"),
        Binding("left,h", "previous", "Row before", show=False, tooltip="the row before"),
        Binding(
            "slash",
            "filter",
            "Filter",
            show=False,
            key_display="/",
            tooltip="only rows with a text",
        ),
        Binding("i", "import_lessons", "Import", tooltip="import the lessons of this file"),
        Binding("t", "train", "Train", tooltip="start a training with this file"),
        Binding("w", "way", "Way", tooltip="find the method and the settings for it"),
        Binding("f", "fix", "Fix", tooltip="write a copy without bad and repeated rows"),
        Binding("o", "open_copy", "Open copy", tooltip="inspect the copy"),
        Binding("b", "browse", "Browse", show=False, tooltip="look for a file"),
        Binding("m", "model", "Model", show=False, tooltip="choose the tokenizer"),
        Binding("g", "first", "First row", show=False, tooltip="go to the first row"),
        Binding("G", "last", "Last row", show=False, tooltip="go to the last row"),
        Binding("y", "copy", "Copy command", show=False, tooltip="copy zoo-gym data inspect ..."),
        Binding("escape", "cancel", "Cancel", key_display="Esc"),
        Binding("escape", "leave", "Back", key_display="Esc"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.names = [name for name, _ in available_models()]
        self.path = ""
        self.inspected: Mapping[str, Any] | None = None
        self.lessons: LessonFile | None = None
        self.row = 1
        self.copy_path = ""
        self._file: RowFile | None = None
        self._rows: dict[int, list[ShownRow]] = {}
        self._matches: list[int] | None = None
        self._last = 0
        self._state = ""

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar()
        with Vertical(classes="panel", id="file") as box:
            box.border_title = "File of examples"
            with Horizontal(id="choice"):
                yield PathField(placeholder="path of a file", id="path", compact=True)
                options = [(visible(name), name) for name in self.names]
                yield Select(options, allow_blank=False, compact=True, id="model")
            yield Static(id="state", classes="note", markup=False)
            yield Static(id="problem", classes="problem", markup=False)
        with VerticalScroll(classes="panel empty", id="empty") as box:
            box.border_title = "What a file of examples looks like"
            yield Static(texts.EMPTY, markup=False)
        yield LessonsPanel(classes="panel", id="lessons")
        with Horizontal(classes="columns", id="found"):
            with VerticalScroll(classes="column", id="left", can_focus=False):
                with Vertical(classes="panel", id="what") as box:
                    box.border_title = "What it is"
                    yield Fitted(id="facts")
                with Vertical(classes="panel", id="tokens") as box:
                    box.border_title = "Tokens per row"
                    yield Fitted(id="lengths")
                with VerticalScroll(classes="panel", id="faults") as box:
                    box.border_title = "Rows to look at"
                    yield Static(id="problems", markup=False)
            with Vertical(classes="column", id="right"):
                yield Input(placeholder="text in the rows", id="filter", compact=True)
                with VerticalScroll(classes="panel", id="row"):
                    yield Static(id="content", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows what to do first."""
        self.query_one("#filter").display = False
        self._set_state("")
        self._problem("")
        self._show_parts()

    def on_unmount(self) -> None:
        """Lets the threads that read the file end."""
        self._file = None

    def on_paste(self, event: Paste) -> None:
        """Inspects a dropped file, wherever the focus is."""
        self.open(pasted_path(event.text))

    @on(Input.Submitted, "#path")
    def path_entered(self) -> None:
        """Inspects the file."""
        self.open(pasted_path(self.query_one("#path", Input).value))

    @on(Select.Changed, "#model")
    def model_changed(self) -> None:
        """Counts the tokens again, with another tokenizer."""
        if self.path:
            self._inspect()

    @on(Input.Submitted, "#filter")
    def filter_entered(self) -> None:
        """Goes through the rows with the text."""
        self._find(self.query_one("#filter", Input).value.strip())
        self.query_one("#row").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers only what can be done now."""
        del parameters
        found, is_reading = self.inspected, self._state == "reading"
        rows = found is not None or self._has_lines
        offered: dict[str, bool] = dict.fromkeys(
            ("next", "previous", "filter", "first", "last"), rows
        )
        offered |= dict.fromkeys(("train", "way"), found is not None)
        offered["fix"] = found is not None and bool(found["problems"] or found["duplicates"])
        offered["import_lessons"] = self.lessons is not None and not self.lessons.problem
        offered["open_copy"] = bool(self.copy_path)
        offered["cancel"] = is_reading
        offered["leave"] = not is_reading and (self._matches is not None or self._is_typing)
        return offered.get(action, True)

    @property
    def _has_lines(self) -> bool:
        """Whether rows can be shown as they are in the file."""
        return self.lessons is None and self._file is not None and self._file.count > 0

    @property
    def _is_typing(self) -> bool:
        return isinstance(self.focused, Input)

    @property
    def model(self) -> str:
        """The model whose tokenizer counts."""
        return str(self.query_one("#model", Select).value)

    @property
    def words(self) -> list[str]:
        """The command that inspects the file, without `zoo-gym`."""
        return ["data", "inspect", self.path or "FILE", "--model", self.model]

    def open(self, path: str) -> None:
        """Inspects a file, from its first row on."""
        self.query_one("#path", Input).value = path
        path = absolute_path(path) if path else ""
        if not path or not (is_file(path) or Path(path).is_dir()):
            self._problem(f"{path or 'an empty path'}: no such file")
            return
        self.path, self.row, self.copy_path = path, 1, ""
        self._matches, self.query_one("#filter").display = None, False
        self._inspect()

    def action_next(self) -> None:
        """Shows the next row."""
        self._move(1)

    def action_previous(self) -> None:
        """Shows the row before."""
        self._move(-1)

    def action_first(self) -> None:
        """Shows the first row."""
        self._go(self._matches[0] if self._matches else 1)

    def action_last(self) -> None:
        """Shows the last row that is known."""
        self._go(self._matches[-1] if self._matches else self.total or self._last or 1)

    def action_filter(self) -> None:
        """Asks for a text."""
        field = self.query_one("#filter")
        field.display = True
        field.focus()

    def action_train(self) -> None:
        """Opens a new training with this file, the model, and the method that learns from it."""
        stages = self.inspected["stages"] if self.inspected else []
        stage = f"stage={stages[0]}" if stages and DEFAULT not in stages else ""
        app_of(self).action_start(self.path, self.model, stage)

    def action_import_lessons(self) -> None:
        """Opens the form that imports the lessons of this file."""
        self.app.push_screen(FormScreen(importing(self.path)))

    def action_way(self) -> None:
        """Finds method and settings for this file."""
        app_of(self).action_recommend(self.path)

    def action_browse(self) -> None:
        """Opens a tree of folders."""

        def chosen(path: str | None) -> None:
            if path:
                self.open(path)

        folder = Path(self.path).parent if self.path else Path.cwd()
        dialog = BrowseDialog(folder, SUFFIXES, title="Open a file of examples")
        self.app.push_screen(dialog, chosen)

    def action_path(self) -> None:
        """Goes to the path."""
        self.query_one("#path").focus()

    def action_model(self) -> None:
        """Opens the list of tokenizers."""
        select = self.query_one("#model", Select)
        select.focus()
        select.action_show_overlay()

    def action_copy(self) -> None:
        """Copies the command."""
        self.app.copy_to_clipboard(shlex.join(["zoo-gym", *self.words]))
        self.notify("Copied")

    def action_fix(self) -> None:
        """Writes a copy without bad and repeated rows."""
        self._fix()

    def action_open_copy(self) -> None:
        """Inspects the copy."""
        self.open(self.copy_path)

    def action_cancel(self) -> None:
        """Ends the reading; what is typed stays."""
        self.workers.cancel_node(self)
        self._set_state("cancelled")
        self._show_parts()
        self._show_row()

    def action_leave(self) -> None:
        """Leaves a field, and ends the filter."""
        self._matches, self.query_one("#filter").display = None, False
        self.query_one(self._main_part).focus()
        self._show_row()

    @property
    def _main_part(self) -> str:
        if self.lessons is not None:
            return "#lessons"
        return "#row" if self.inspected or self._has_lines else "#empty"

    @property
    def total(self) -> int:
        """The number of rows of the file; 0 if it is not known."""
        if self._file is not None and self._file.count:
            return self._file.count
        found = self.inspected
        return found["rows"] + len(found["problems"]) if found else 0

    def _inspect(self) -> None:
        for group in ("rows", "find", "fix"):  # of the file before
            self.workers.cancel_group(self, group)
        self.inspected, self.lessons, self._file, self._rows = None, None, None, {}
        self._problem("")
        self._set_state("reading")
        self._show_parts()
        self._index(self.path)
        self._ask(self.path)

    @work(exclusive=True, group="index")
    async def _index(self, path: str) -> None:
        """Finds the rows of a file with a row per line, so that they can be shown at once."""
        file = self._file = await asyncio.to_thread(open_rows, Path(path))
        if file is not None:
            await asyncio.to_thread(file.index, lambda: self._file is file)
            self._show_row()
            if self.inspected is None:
                self.query_one("#row").focus(scroll_visible=False)

    @work(exclusive=True, group="inspect")
    async def _ask(self, path: str) -> None:
        self.lessons = await asyncio.to_thread(lessons_in, Path(path))
        if self.lessons is not None:
            self._set_state("")
            self._show_parts()
            self.query_one("#lessons").focus()
            return
        try:
            answer = await ask_command([*self.words, "--offline"])
        except GymError as error:
            self._set_state("")
            self._problem(f"{error.message}\n{error.hint}" if error.hint else error.message)
            self._show_parts()
            return
        if path != self.path:
            return
        self.inspected = answer
        self._set_state("")
        self._show_parts()
        self.query_one("#row").focus(scroll_visible=False)
        self._show_row()

    @work(exclusive=True, group="rows")
    async def _read_rows(self, first: int) -> None:
        """Reads a page of rows as the model reads them."""
        stages = self.inspected["stages"] if self.inspected else []
        stage = ["--stage", stages[0]] if stages else []
        words = ["data", "show", self.path, "--first", str(first), "--count", str(PAGE)]
        words += ["--model", self.model, *stage, "--offline"]
        shown = self.path, self.model
        try:
            rows = (await ask_command(words))["rows"]
        except GymError as error:
            rows = [texts.problem_row(first + i, error.message) for i in range(PAGE)]
        if shown == (self.path, self.model):  # else they are of another file
            self._keep(first, rows)
            self._show_row()

    def _keep(self, first: int, rows: list[ShownRow]) -> None:
        """Keeps the rows of a page; those of earlier ones are forgotten beyond a few pages."""
        if len(self._rows) > 10 * PAGE:
            self._rows.clear()
        for number in range(first, first + PAGE):  # what has no row is not read again
            self._rows[number] = [row for row in rows if row["row"] == number]
        self._last = max((number for number, read in self._rows.items() if read), default=0)

    @work(exclusive=True, group="find")
    async def _find(self, text: str) -> None:
        """Finds the rows with a text: in the lines of the file, or by the command."""
        if not text:
            self._matches = None
            self._show_row()
            return
        self._set_state("searching")
        file = self._file
        if file is not None:
            go_on = lambda: self._file is file  # noqa: E731
            self._matches = await asyncio.to_thread(file.find, text, MOST_MATCHES, go_on)
        else:
            words = ["data", "show", self.path, "--find", text, "--count", "200"]
            try:
                answer = await ask_command([*words, "--model", self.model, "--offline"])
            except GymError as error:
                self._problem(error.message)
                return
            self._matches = sorted({row["row"] for row in answer["rows"]})
            for row in answer["rows"]:
                self._rows[row["row"]] = [row]
        self._set_state("")
        self.row = self._matches[0] if self._matches else self.row
        self._show_row()

    @work(exclusive=True, group="fix")
    async def _fix(self) -> None:
        found = self.inspected
        if found is None:
            return
        stage = ["--stage", found["stages"][0]] if found["stages"] else []
        self._set_state("copying")
        try:
            answer = await ask_command(["data", "fix", self.path, *stage], finish=True)
        except GymError as error:
            self._set_state("")
            self._problem(f"{error.message}\n{error.hint}" if error.hint else error.message)
            return
        self._set_state("")
        self.copy_path = str(answer["file"] or "")
        self._problem("")
        self.query_one("#state", Static).update(visible(texts.fixed_words(answer)))
        self.query_one("#state").display = True
        self.refresh_bindings()

    def _move(self, step: int) -> None:
        if self._matches is None:
            self._go(self.row + step)
            return
        later = [row for row in self._matches if (row - self.row) * step > 0]
        if later:
            self._go(later[0] if step > 0 else later[-1])

    def _go(self, row: int) -> None:
        last = self.total
        self.row = max(1, min(row, last) if last else row)
        box = self.query_one("#row", VerticalScroll)
        box.scroll_home(animate=False)
        box.scroll_visible(animate=False)
        self._show_row()

    def _show_row(self) -> None:
        """Shows the row as the model reads it, or as it is in the file until that is known."""
        is_read = self.inspected is not None or self._file is not None
        if not self.is_mounted or not is_read or self.lessons is not None:
            return
        self._show_parts()
        rows, box = self._rows.get(self.row, []), self.query_one("#row")
        box.border_title = visible(texts.row_title(self.row, self.total, rows))
        content = self.query_one("#content", Static)
        if self._matches is not None and not self._matches:
            content.update("No row has this text. Esc shows all rows.")
        elif rows:
            box.border_subtitle = "bright: learned  dim: only read"
            content.update(texts.shown_rows(rows))
        else:
            box.border_subtitle = "as it is in the file"
            line = self._file.read(self.row) if self._file else ""
            content.update(texts.raw_row(line, is_read=self.row in self._rows))
        if self._matches:
            at = self._matches.index(self.row) + 1 if self.row in self._matches else 0
            box.border_subtitle = f"match {at} of {len(self._matches):,}"
        self._read_ahead()

    def _read_ahead(self) -> None:
        """Reads the page of the row, or the next one before its end is reached."""
        if self._state == "reading" or (self._matches is not None and not self._matches):
            return  # the command would be in the way of the inspection
        if self.row not in self._rows:
            self._read_rows(max(1, self.row - 1))
        elif self._matches is None and self.total > self.row + AHEAD not in self._rows:
            self._read_rows(self.row + AHEAD)

    def _show_parts(self) -> None:
        """Shows the panels of the state: what to do first, reading, or what was found."""
        found, has_rows = self.inspected, self._has_lines
        is_empty = found is None and not has_rows and self.lessons is None
        self.query_one("#empty").display = is_empty
        self.query_one(LessonsPanel).show(self.lessons)
        self.query_one("#found").display = found is not None or has_rows
        self.query_one("#left").display = found is not None
        if found is not None:
            self.query_one("#facts", Fitted).show(partial(texts.facts, found))
            self.query_one("#lengths", Fitted).show(partial(texts.lengths, found))
            self.query_one("#problems", Static).update(texts.faults(found))
            self.query_one("#tokens").border_subtitle = texts.counted_by(self.model)
        self.refresh_bindings()

    def _set_state(self, state: str) -> None:
        self._state = state
        widget = self.query_one("#state", Static)
        widget.update(visible(texts.state_words(state, self.model)))
        widget.display = bool(state)
        self.refresh_bindings()

    def _problem(self, text: str) -> None:
        widget = self.query_one("#problem", Static)
        widget.display = bool(text)
        widget.update(visible(text))
