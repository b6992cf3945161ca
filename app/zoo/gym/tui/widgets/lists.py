"""Lists that also move with j, k, g and G, and show Enter in the bottom line."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuses to move by pages where there is no line for the list: textual would end."""
        del parameters
        return action not in {"page_up", "page_down"} or self.scrollable_content_region.height > 0


class RowTable(DataTable[Text]):
    """Rows of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open", key_display="Enter"),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]

    def fit(self, rows: Sequence[Sequence[Text]]) -> None:
        """Makes each column as wide as its longest cell; call it before the cells are written.

        Textual measures cells when it is idle. What it has drawn before that stays cut.
        """
        for i, column in enumerate(self.ordered_columns):
            cells = [column.label, *(row[i] for row in rows)]
            column.auto_width, column.width = False, max(cell.cell_len for cell in cells)
