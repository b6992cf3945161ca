"""A field for a path: Tab completes it, and a file dropped on the terminal takes its place."""

import os
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.widgets import Input

_MOST_NAMES = 5000
"""Names of a folder that are looked at."""


class PathField(Input):
    """A one-line field; what is pasted is left to the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete the path", show=False),
    ]

    def on_paste(self, event: Paste) -> None:
        """Keeps the field from inserting a paste, which the screen handles."""
        event.prevent_default()

    def action_complete(self) -> None:
        """Completes the path as far as it is clear; goes on to the next field otherwise."""
        completed = completed_path(self.value)
        if completed != self.value and self.value:
            self.value = completed
            self.cursor_position = len(completed)
        else:
            self.app.action_focus_next()


def completed_path(text: str) -> str:
    """Returns a path with what all names that begin like its last part have in common."""
    folder, start = os.path.split(text)
    try:
        names = _names(Path(folder or ".").expanduser(), start)
    except (OSError, RuntimeError, ValueError):
        return text
    if not names:
        return text
    common = os.path.commonprefix(names)  # noqa: RUF071 - of names, not of paths
    completed = os.path.join(folder, common)  # noqa: PTH118 - keeps a leading ~ and ./
    if len(names) == 1 and Path(completed).expanduser().is_dir():
        completed += os.sep
    return completed


def _names(folder: Path, start: str) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry, _ in zip(entries, range(_MOST_NAMES), strict=False)]
    return [
        name for name in names if name.startswith(start) and (start or not name.startswith("."))
    ]
