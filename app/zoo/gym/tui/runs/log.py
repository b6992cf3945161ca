"""Everything that a worker prints, tracebacks included, as it is written."""

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer

from zoo.gym.jobs import Run
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.text_log import TextLog

_TAIL_BYTES = 400_000
EMPTY = """\
The worker has printed nothing, which is normal: only tracebacks and warnings of libraries are \
printed here. What the run itself warns of is on its screen."""


class LogScreen(GymScreen):
    """Shows the end of `worker.log` and what is added to it.

    Args:
        run: whose log.
    """

    HELP = "What the worker of this run printed: tracebacks, and warnings of libraries."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,l", "app.pop_screen", "Back", key_display="Esc"),
        Binding("y", "copy", "Copy all"),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self._offset = 0

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar(f"{self.run.id} > log {self.run.worker_log}")
        log = TextLog()
        log.add_class("panel", "fills")
        log.border_title = self.run.worker_log.name
        yield log
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows what the log contains and follows it."""
        self._follow()

    def action_copy(self) -> None:
        """Copies the lines to the clipboard."""
        self.app.copy_to_clipboard(self.query_one(TextLog).text)
        self.notify("Copied")

    @work
    async def _follow(self) -> None:
        await self._read()
        if not self._offset:
            self.query_one(TextLog).add(f"{EMPTY}\n")
        while True:
            await asyncio.sleep(app_of(self).redraw_s)
            await self._read()

    async def _read(self) -> None:
        text, offset = await asyncio.to_thread(read_after, self.run.worker_log, self._offset)
        if text and not self._offset:
            self.query_one(TextLog).empty()
        self._offset = offset
        if text:
            self.query_one(TextLog).add(text)


def read_after(path: Path, offset: int) -> tuple[str, int]:
    """Returns what a log contains after `offset`, at most its last 400 kB, and its new end."""
    if not path.exists():
        return "", 0
    size = path.stat().st_size
    if size <= offset:
        return "", offset
    with path.open("rb") as file:
        file.seek(max(offset, size - _TAIL_BYTES))
        content = file.read()
    return content.decode("utf-8", "replace").replace("\r", "\n"), size
