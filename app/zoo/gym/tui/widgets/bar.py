"""The top line: the main screens with their keys, and what is open."""

from typing import ClassVar

from textual.content import Content
from textual.widgets import Static

from zoo.gym.terminal import visible

PLACES = (("1", "home", "Home"), ("2", "runs", "Runs"))
"""Key, mode and name of each main screen."""


class Bar(Static):
    """Shows where the user is; a click on a main screen goes there.

    Args:
        open_here: what is open on top of the main screen, if anything is.
    """

    DEFAULT_CSS: ClassVar[str] = """
    Bar { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, open_here: str = "") -> None:
        super().__init__()
        self.open_here = open_here

    def on_mount(self) -> None:
        """Writes the line."""
        self.show(self.open_here)

    def show(self, open_here: str) -> None:
        """Names what is open here."""
        parts = ["[b $primary]zoo-gym[/]"]
        for key, mode, name in PLACES:
            shown = f"[b]> {key} {name}[/]" if mode == self.app.current_mode else f"  {key} {name}"
            parts.append(f"[@click=app.go('{mode}')]{shown}[/]")
        line = Content.from_markup("  ".join(parts))
        self.update(line + Content(visible(f"  > {open_here}")) if open_here else line)
