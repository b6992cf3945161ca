"""The top line: the places with their keys, the one that is shown, and what is open in it."""

from typing import ClassVar

from textual.content import Content
from textual.widgets import Static

from zoo.gym.terminal import visible

PLACES = (("1", "home", "Home"), ("2", "runs", "Runs"))
"""Key, mode and name of each place."""


class Bar(Static):
    """Names where the user is; a click on a place goes there.

    Args:
        open_here: what is open in that place, if it is not the place itself.
    """

    DEFAULT_CSS: ClassVar[str] = """
    Bar { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, open_here: str = "") -> None:
        super().__init__()
        self.open_here = open_here

    def on_mount(self) -> None:
        """Writes the line."""
        self.tell(self.open_here)

    def tell(self, open_here: str) -> None:
        """Replaces the name of what is open here."""
        parts = ["[b $primary]zoo-gym[/]"]
        for key, mode, name in PLACES:
            shown = f"[b]> {key} {name}[/]" if mode == self.app.current_mode else f"  {key} {name}"
            parts.append(f"[@click=app.go('{mode}')]{shown}[/]")
        line = Content.from_markup("  ".join(parts))
        self.update(line + Content(visible(f"  > {open_here}")) if open_here else line)
