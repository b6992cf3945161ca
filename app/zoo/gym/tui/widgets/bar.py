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
        opened: what is open on top of the main screen, if anything is.
    """

    DEFAULT_CSS: ClassVar[str] = """
    Bar { height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, opened: str = "") -> None:
        super().__init__()
        self.opened = opened

    def on_mount(self) -> None:
        """Writes the line."""
        self.show(self.opened)

    def show(self, opened: str) -> None:
        """Names what is open here."""
        parts = ["[b $primary]zoo-gym[/]"]
        for key, mode, name in PLACES:
            label = f"[b]> {key} {name}[/]" if mode == self.app.current_mode else f"  {key} {name}"
            parts.append(f"[@click=app.go('{mode}')]{label}[/]")
        line = Content.from_markup("  ".join(parts))
        self.update(line + Content(visible(f"  > {opened}")) if opened else line)
