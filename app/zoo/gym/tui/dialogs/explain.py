"""The help of a screen: its text, then every key."""

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from zoo.gym.tui.palette import is_own

EVERYWHERE = (
    ("tab, shift+tab", "next and previous part of the screen"),
    ("arrows or j k g G", "move in a list or a log"),
    ("ctrl+p", "search the commands and themes"),
    ("ctrl+q", "quit, also from a text field"),
)


class ExplainDialog(ModalScreen[None]):
    """Explains the screen below it, from its `own_help` or else its `HELP`, and its keys.

    Args:
        about: the screen to explain.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ExplainDialog { align: center middle; }
    ExplainDialog > VerticalScroll {
        width: 72; max-width: 95%; height: auto; max-height: 90%; padding: 1 2;
        scrollbar-size-vertical: 1;
        border: round $primary; background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "close", "Close", key_display="Esc"),
        Binding("1,2,3,4,5,6,n", "close", show=False),
    ]

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self.about = screen

    def compose(self) -> ComposeResult:
        """Writes the page."""
        with VerticalScroll() as box:
            box.border_title = "Help"
            box.border_subtitle = "ctrl+p searches all commands, Esc closes"
            text = getattr(self.about, "own_help", "") or self.about.HELP or ""
            yield Static(text.strip() + "\n", markup=False)
            rows = [*_keys(self.about), *EVERYWHERE]
            yield Static(_table(rows))

    def action_close(self) -> None:
        """Closes the page."""
        self.dismiss()


def _table(rows: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(min_width=20)
    for key, text in rows:
        table.add_row(Text(key), Text(text))
    return table


def _keys(screen: Screen[object]) -> list[tuple[str, str]]:
    keys = [
        (screen.app.get_key_display(active.binding), active.tooltip or active.binding.description)
        for active in screen.active_bindings.values()
        if is_own(active)
    ]
    return list(dict.fromkeys(keys))
