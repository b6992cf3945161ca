"""The screen that every other one is."""

from textual import on
from textual.events import Mount
from textual.screen import Screen


class GymScreen(Screen[None]):
    """A screen whose workers end before its widgets do.

    Textual cancels a screen's workers only after it has removed the widgets. A worker that was
    waiting for a thread could continue in between, find no widget to write to, and end the app.
    No message is handled any more where this cancels them, so none can start another one.
    """

    @property
    def has_entries(self) -> bool:
        """Whether leaving the screen for another place discards what was typed."""
        return False

    @on(Mount)
    def take_size(self) -> None:
        """Takes the classes of the terminal's size before the first layout.

        Textual takes them after it: the first picture would be that of a narrow terminal, and a
        click on it would meet nothing of the second one.
        """
        sides = zip(
            self.app.size,
            (self.app.HORIZONTAL_BREAKPOINTS, self.app.VERTICAL_BREAKPOINTS),
            strict=True,
        )
        for cells, breakpoints in sides:
            self.add_class(*self._get_breakpoint_classes(cells, breakpoints or []))

    async def _message_loop_exit(self) -> None:
        self.workers.cancel_node(self)
        await super()._message_loop_exit()
