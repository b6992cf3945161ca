"""A tab of the place Share: a list at the left, what is under the cursor at the right."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static
from textual.worker import WorkType

from zoo.gym.errors import GymError
from zoo.gym.terminal import visible
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.share.action import Action
from zoo.gym.tui.share.form import FormScreen
from zoo.gym.tui.share.words import Part, cell, note, of_error
from zoo.gym.tui.widgets.lists import RowTable

PAUSE_S = 0.15
"""How long the cursor rests on a row before its details are read."""


Row = TypeVar("Row")
"""What a row of the list is."""


class Details(VerticalScroll):
    """A box of text that can be scrolled."""


class SharePane(Container, Generic[Row]):
    """A list of rows with details of one; a subclass says what they are.

    Attributes:
        KIND: the title of the list.
        COLUMNS: the names of its columns; a name that begins with `>` is of right-aligned numbers.
        EMPTY: what is shown in place of an empty list: what it is for, by an example.
        READING: what is said while the list is read.
    """

    KIND: ClassVar[str]
    COLUMNS: ClassVar[tuple[str, ...]]
    EMPTY: ClassVar[str]
    READING: ClassVar[str]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "reload", "Read again", show=False, tooltip="read the list again"),
    ]

    def __init__(self) -> None:
        super().__init__(classes="columns share-pane")
        self.rows: list[Row] = []
        self._known: dict[str, list[Part]] = {}

    def compose(self) -> ComposeResult:
        """Makes the two boxes, and the one of an empty list."""
        with Container(classes="column panel list") as box:
            box.border_title = self.KIND
            yield Static(self.READING, classes="note reading", markup=False)
            yield Static(classes="problem", markup=False)
            yield RowTable(cursor_type="row")
            yield from self.below()
        with Details(classes="column panel details") as box:
            box.border_title = "Details"
        with Details(classes="panel empty") as box:
            box.border_title = self.KIND
            yield Static(self.EMPTY, markup=False)

    def below(self) -> ComposeResult:
        """Makes what stands below the list: nothing."""
        yield from ()

    def on_mount(self) -> None:
        """Adds the columns; nothing is read before the tab is shown."""
        for column in self.COLUMNS:
            self.table.add_column(cell(column, column.lstrip(">")))
        for name in (".list > .problem", ".details", ".empty"):
            self.query_one(name).display = False
        self.table.display = False

    async def read(self) -> list[Row]:
        """Returns the rows."""
        raise NotImplementedError

    def cells(self, row: Row) -> tuple[str, ...]:
        """Returns what a row of the list shows."""
        raise NotImplementedError

    def key_of(self, row: Row) -> str:
        """Returns what tells a row from all others, also when the list is read again."""
        raise NotImplementedError

    async def details(self, row: Row) -> list[Part]:
        """Returns what is known of a row."""
        raise NotImplementedError

    @property
    def table(self) -> RowTable:
        """The list."""
        return self.query_one(RowTable)

    @property
    def current(self) -> Row | None:
        """The row under the cursor, None in an empty list."""
        at = self.table.cursor_row if self.is_mounted else -1
        return self.rows[at] if 0 <= at < len(self.rows) else None

    def reload(self) -> None:
        """Reads the list again, and the details."""
        self._work(self._read, "list")

    def action_reload(self) -> None:
        """Reads the list again: others may have sent something."""
        self.reload()

    def take_focus(self) -> None:
        """Puts the focus on the list, or on what stands in its place."""
        empty = self.query_one(".empty")
        (empty if empty.display else self.table).focus()

    def open_form(self, action: Action) -> None:
        """Opens the form of a command; the list is read again after it."""
        self.app.push_screen(FormScreen(action))

    def open_chat(
        self, names: Sequence[str] = (), *, base: str = "", lessons: Sequence[str] = ()
    ) -> None:
        """Opens Chat with models or lessons beside their base, as `ChatScreen.select` has them."""
        app = app_of(self)
        app.run_worker(app.action_compare(names, base, lessons))

    def on_data_table_row_highlighted(self) -> None:
        """Shows the details of the row that the cursor came to."""
        self.show_details()

    def show_details(self) -> None:
        """Shows the details of the row under the cursor."""
        self.screen.refresh_bindings()
        if (row := self.current) is not None:
            self._work(partial(self._detail, row), "details")

    def _work(self, task: "WorkType[None]", group: str) -> None:
        # a worker of the screen, which ends its workers before its widgets
        self.screen.run_worker(task, group=f"{self.id or self.KIND}-{group}", exclusive=True)

    async def _read(self) -> None:
        try:
            rows = await self.read()
        except (GymError, OSError) as error:
            self._problem(error)
            return
        self._problem(None)
        self._show(rows)

    def _problem(self, error: Exception | None) -> None:
        widget = self.query_one(".list > .problem", Static)
        widget.display = error is not None
        if error is not None:
            widget.update(of_error(error)[1])
        self.query_one(".reading").display = False

    def _show(self, rows: "Sequence[Row]") -> None:
        """Fills the list; the cursor stays on its row."""
        current = self.current
        chosen = None if current is None else self.key_of(current)
        focused = self.has_focus_within
        self.rows = list(rows)
        self._known.clear()  # of the rows before, one of which may have been read meanwhile
        cells = [self._texts(row) for row in self.rows]
        self.table.clear()
        self.table.fit(cells)
        for row in cells:
            self.table.add_row(*row)
        keys = [self.key_of(row) for row in self.rows]
        if chosen in keys:
            self.table.move_cursor(row=keys.index(chosen))
        self.table.display = bool(self.rows)
        for name, shown in ((".list", rows), (".details", rows), (".empty", not rows)):
            self.query_one(name).display = bool(shown)
        if focused or self.screen.focused is None:
            self.take_focus()
        self.show_details()

    def _texts(self, row: Row) -> tuple[Text, ...]:
        shown = zip(self.COLUMNS, self.cells(row), strict=True)
        return tuple(cell(column, text) for column, text in shown)

    async def _detail(self, row: Row) -> None:
        key, box = self.key_of(row), self.query_one(".details", Details)
        box.border_title = Content(visible(self.title_of(row)))
        if key not in self._known:
            await _fill(box, [note("Reading ...")])
            await asyncio.sleep(PAUSE_S)
            try:
                self._known[key] = await self.details(row)
            except (GymError, OSError) as error:
                await _fill(box, [of_error(error)])
                return
        await _fill(box, self._known[key])

    def title_of(self, row: Row) -> str:
        """Returns the title of the details of a row."""
        return self.key_of(row)


async def _fill(box: Details, parts: "Sequence[Part]") -> None:
    """Shows other parts in a box; a mount that is under way is not cut in two."""
    widgets = [Static(shown, classes=look, markup=False) for look, shown in parts]
    await box.remove_children()
    await box.mount_all(widgets)
