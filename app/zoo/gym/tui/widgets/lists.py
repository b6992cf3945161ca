"""Lists that also move with j, k, g and G, and show Enter in the bottom line."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import DataTable, OptionList


class Choices(OptionList):
    """A list of actions, one per line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Select", key_display="Enter"),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
    ]


class RowTable(DataTable[str]):
    """Rows of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open", key_display="Enter"),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]
