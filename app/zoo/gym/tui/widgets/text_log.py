"""Lines of text, followed to the newest one; long lines are wrapped."""

from collections import deque
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import RichLog

from zoo.gym.terminal import visible

MOST_LINES = 2000

SCROLL_KEYS: list[BindingType] = [
    Binding("j", "scroll_down", show=False),
    Binding("k", "scroll_up", show=False),
    Binding("g", "scroll_home", show=False),
    Binding("G", "scroll_end", show=False),
]


class TextLog(RichLog):
    """Keeps the last lines, and wraps them again when the width changes."""

    DEFAULT_CSS: ClassVar[str] = """
    TextLog { background: $background; padding: 0 1; scrollbar-size-vertical: 1; }
    TextLog { overflow-x: hidden; scrollbar-gutter: stable; }
    TextLog:focus { background-tint: transparent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    def __init__(self) -> None:
        super().__init__(wrap=True, min_width=1, max_lines=4 * MOST_LINES)
        self.text_lines = deque[str](maxlen=MOST_LINES)
        self._ends_in_line = True
        self._wrapped_at = 0

    @property
    def text(self) -> str:
        """The lines that are kept."""
        return "\n".join(self.text_lines)

    def add(self, text: str) -> None:
        """Adds text whose last line may be continued by a later call."""
        ends_in_line, self._ends_in_line = self._ends_in_line, text.endswith("\n")
        lines = [visible(line) for line in text.removesuffix("\n").split("\n")]
        if not ends_in_line:
            lines[0] = self.text_lines.pop() + lines[0]
        self.text_lines.extend(lines)
        if ends_in_line:
            self._show(lines)
        else:
            self._show_all()

    def empty(self) -> None:
        """Removes all lines."""
        self.text_lines.clear()
        self._ends_in_line = True
        self.clear()

    def on_resize(self, event: Resize) -> None:
        """Wraps the lines to the new width."""
        if event.size.width != self._wrapped_at:
            self._wrapped_at = event.size.width
            self._show_all()

    def _show_all(self) -> None:
        self.clear()
        self._show(list(self.text_lines))

    def _show(self, lines: list[str]) -> None:
        if self._wrapped_at:
            for line in lines:
                self.write(Text(line))
