"""The top line: the main screens with their keys, how many runs are active, and what is open."""

from textual.content import Content
from textual.widgets import Static

from zoo.gym.humanize import counted
from zoo.gym.terminal import visible
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.places import PLACES


class Bar(Static):
    """Shows where the user is and what runs; a click on a main screen goes there.

    Args:
        opened: what is open on top of the main screen, if anything is.
    """

    def __init__(self, opened: str = "") -> None:
        super().__init__()
        self.opened, self._mode = opened, ""

    def on_mount(self) -> None:
        """Writes the line, and again once another number of runs is active."""
        self._mode = self.app.current_mode  # that of the screen; later another may be in front
        self.watch(self.app, "active", lambda: self.show(self.opened))

    def show(self, opened: str) -> None:
        """Names what is open here."""
        self.opened, active = opened, app_of(self).active
        parts = ["[b $foreground]zoo-gym[/] "]
        for place in PLACES:
            label = f" {place.key} {place.name} "
            label = f"[reverse]{label}[/]" if place.mode == self._mode else label
            parts.append(f"[@click=app.go('{place.mode}')]{label}[/]")
        line = Content.from_markup("".join(parts))
        if opened:
            line += Content(visible(f" > {opened}"))
        if active:  # last: what is open here matters more where the line is short
            line += Content.styled(f"  {counted(active, 'run')} active", "$success")
        self.update(line)
