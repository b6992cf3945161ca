"""All settings of a training, searched by name or meaning; one is taken over with its value."""

import asyncio
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from zoo.gym.terminal import visible
from zoo.gym.tui.start.check import settings_problem
from zoo.gym.tui.widgets.lists import RowTable

if TYPE_CHECKING:
    from zoo.gym.config.describe import Description

COLUMNS = ("setting", "value", "meaning")
_VALUE, _LEAST_TEXT = 16, 12
"""The most characters of a value, and the least of a meaning; below the list stands the whole."""
_FRAME = 13
"""The cells of a line of the list that are no text: frame, gaps, scrollbar."""


class SettingsDialog(ModalScreen[tuple[str, str]]):
    """Answers a key and its value; an empty value removes the setting.

    Args:
        given: the settings of the form, KEY=VALUE each.
    """

    DEFAULT_CSS: ClassVar[str] = """
    SettingsDialog { align: center middle; }
    SettingsDialog > Vertical { width: 95%; height: 90%; background: $surface; }
    SettingsDialog RowTable { height: 1fr; background: $surface; }
    SettingsDialog #about { height: 5; margin-top: 1; overflow-y: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", key_display="Esc"),
        Binding("down", "into", show=False),
    ]

    def __init__(self, given: list[str]) -> None:
        super().__init__()
        pairs = (word.partition("=") for word in given)
        self.given = {key: value for key, _, value in pairs}
        self._all: list[Description] = []
        self.shown: list[Description] = []

    def compose(self) -> ComposeResult:
        """Makes the page."""
        with Vertical(classes="panel") as box:
            box.border_title = "Settings"
            box.border_subtitle = "type to search, Enter takes one, Esc goes back"
            yield Input(placeholder="search: rank, memory, reward ...", id="search", compact=True)
            yield RowTable(cursor_type="row")
            yield Static("Reading the settings ...", id="about", markup=False)
            yield Static(id="problem", classes="problem", markup=False)
            yield Input(placeholder="value, then Enter; empty removes it", id="value", compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Reads the settings."""
        self.query_one("#problem").display = False
        self._table.add_columns(*COLUMNS)
        self._read()

    def on_resize(self) -> None:
        """Shortens the meanings to the new width."""
        if self._all:
            self._search(self.query_one("#search", Input).value)

    @work
    async def _read(self) -> None:
        from zoo.gym.config.describe import describe_settings

        self._all = await asyncio.to_thread(describe_settings)
        self._search("")

    @on(Input.Changed, "#search")
    def search(self, event: Input.Changed) -> None:
        """Lists what matches."""
        self._search(event.value)

    @on(Input.Submitted, "#search")
    def action_into(self) -> None:
        """Goes to the list, or from there on to the value."""
        (self._table if self.focused is self.query_one("#search") else self._field).focus()

    def on_data_table_row_highlighted(self) -> None:
        """Shows the whole meaning, and the value so far."""
        if (setting := self._current) is not None:
            about = f"{setting.key} ({setting.kind}; {setting.note})\n{setting.text}"
            self.query_one("#about", Static).update(visible(about))
            self._field.value = self.given.get(setting.key, "")

    def on_data_table_row_selected(self) -> None:
        """Goes on to the value."""
        self._field.focus()

    @on(Input.Submitted, "#value")
    @work(exclusive=True)
    async def take(self) -> None:
        """Checks the value and answers."""
        setting, value = self._current, self._field.value.strip()
        if setting is None:
            return
        problem = ""
        if value:
            words = f"{setting.key}={value} "
            problem = await asyncio.to_thread(settings_problem, words, typing=False)
        widget = self.query_one("#problem", Static)
        widget.display = bool(problem)
        widget.update(visible(problem))
        if not problem:
            self.dismiss((setting.key, value))

    @property
    def _table(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def _field(self) -> Input:
        return self.query_one("#value", Input)

    @property
    def _current(self) -> "Description | None":
        at = self._table.cursor_row
        return self.shown[at] if 0 <= at < len(self.shown) else None

    def _search(self, text: str) -> None:
        words = text.lower().split()
        self.shown = [
            setting
            for setting in self._all
            if all(word in f"{setting.key} {setting.text}".lower() for word in words)
        ]
        self.shown.sort(key=lambda setting: not all(word in setting.key for word in words))
        room = self._room
        rows = [self._cells(setting, room) for setting in self.shown]
        table = self._table
        table.fit(rows)
        table.clear()
        for row in rows:
            table.add_row(*row)
        if not rows:
            self.query_one("#about", Static).update(f"No setting has {text!r} in name or meaning.")

    @property
    def _room(self) -> int:
        """The characters of a meaning."""
        longest = max((len(setting.key) for setting in self.shown), default=0)
        return max(_LEAST_TEXT, int(self.app.size.width * 0.95) - _FRAME - _VALUE - longest)

    def _cells(self, setting: "Description", room: int) -> tuple[Text, ...]:
        value = self.given.get(setting.key)
        style = "dim" if value is None else "bold"
        shown = Text(_short(setting.default if value is None else value, _VALUE), style=style)
        return Text(setting.key), shown, Text(_short(setting.text, room))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."
