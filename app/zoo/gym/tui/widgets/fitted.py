"""Text that is made for the width of its widget, and made again for another one."""

from collections.abc import Callable
from typing import TypeAlias

from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

Maker: TypeAlias = Callable[[int], Content]
"""Returns the text for a number of cells."""


class Fitted(Static):
    """Shows what a function makes of its width."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self._make: Maker = lambda _: Content()
        self._width = 0

    def show(self, make: Maker) -> None:
        """Replaces the text."""
        self._make = make
        self.update(make(self._width or self.size.width or 40))

    def on_resize(self, event: Resize) -> None:
        """Makes the text for the new width."""
        if event.size.width != self._width:
            self._width = event.size.width
            # a change in the middle of a layout would keep the height of the text before
            self.call_after_refresh(lambda: self.update(self._make(self._width)))
