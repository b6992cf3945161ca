"""The app itself: its main screens and the keys that work everywhere."""

import os
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from zoo.gym.tui.theme import MESSAGES, ZOO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def home() -> Screen[None]:
    """Returns the first screen: what is on this machine and what to do next."""
    from zoo.gym.tui.screens.home import HomeScreen

    return HomeScreen()


def runs() -> Screen[None]:
    """Returns the list of all runs."""
    from zoo.gym.tui.screens.runs import RunsScreen

    return RunsScreen()


PALETTE_LINES = 8
"""The height of a terminal from which on the list of commands has a line."""


class GymApp(App[None]):
    """The app; each screen is imported when it is first shown."""

    TITLE = "zoo-gym"
    MODES: ClassVar["dict[str, str | Callable[[], Screen[None]]]"] = {"home": home, "runs": runs}
    DEFAULT_MODE = "home"
    CSS = MESSAGES
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (96, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (28, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "go('home')", "Home", show=False),
        Binding("2", "go('runs')", "Runs", show=False),
        Binding("n", "start", "New run"),
        Binding("question_mark", "explain", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self) -> None:
        super().__init__()
        over_ssh = bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))
        self.redraw_s = 1.0 if over_ssh else 0.5
        if over_ssh:
            self.animation_level = "none"
        self.register_theme(ZOO)
        self.theme = ZOO.name

    @property
    def fault(self) -> Exception | None:
        """The error that ended the app, None if there was none."""
        return self._exception

    def _fatal_error(self) -> None:
        """Ends the app after an unexpected error, which its caller reports.

        Textual's own report has the values of all variables: the environment, with its API keys,
        is among them.
        """
        self._close_messages_no_wait()

    def get_system_commands(self, screen: Screen[Any]) -> "Iterable[SystemCommand]":
        """Returns the commands of ctrl+p: the app's own ones."""
        from zoo.gym.tui.palette import commands

        return commands(self, screen)

    def action_command_palette(self) -> None:
        """Opens the commands of ctrl+p; without a line for their list, textual ends at page up."""
        if self.size.height >= PALETTE_LINES:
            super().action_command_palette()
        else:
            self.notify(f"The commands need a terminal of {PALETTE_LINES} lines")

    async def action_go(self, mode: str) -> None:
        """Shows Home or Runs, and closes what is open there."""
        await self.switch_mode(mode)
        while len(self.screen_stack) > 1:
            await self.pop_screen()

    def action_start(self, path: str = "") -> None:
        """Opens the screen that starts a training, for a file of examples if there is one."""
        from zoo.gym.tui.screens.start import StartScreen

        if not isinstance(self.screen, StartScreen):
            self.push_screen(StartScreen(path))

    async def action_watch(self, run_id: str) -> None:
        """Opens a run on top of the list of runs."""
        from zoo.gym.tui.screens.run import RunScreen

        await self.action_go("runs")
        await self.push_screen(RunScreen(run_id))

    def action_command(self, words: str) -> None:
        """Runs a zoo-gym command and shows what it prints."""
        from zoo.gym.tui.screens.command import CommandScreen

        self.push_screen(CommandScreen(words))

    def action_explain(self) -> None:
        """Shows what the keys of this screen do."""
        from zoo.gym.tui.dialogs.explain import ExplainDialog

        self.push_screen(ExplainDialog(self.screen))
