"""The app itself: its places, the keys that work everywhere, and nothing else."""

import os
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from zoo.gym.tui.theme import ZOO

if TYPE_CHECKING:
    from collections.abc import Callable


def home() -> Screen[None]:
    """Returns the first place: what is here and what to do next."""
    from zoo.gym.tui.screens.home import HomeScreen

    return HomeScreen()


def runs() -> Screen[None]:
    """Returns the place of all runs."""
    from zoo.gym.tui.screens.runs import RunsScreen

    return RunsScreen()


def over_ssh() -> bool:
    """Says whether the terminal is at the other end of a network."""
    return bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))


def app_of(node: DOMNode) -> "GymApp":
    """Returns the app that a screen or widget is in, by its own type."""
    return cast("GymApp", node.app)


class GymApp(App[None]):
    """The app; every other file of this room is imported when its screen is first shown."""

    TITLE = "zoo-gym"
    MODES: ClassVar["dict[str, str | Callable[[], Screen[None]]]"] = {"home": home, "runs": runs}
    DEFAULT_MODE = "home"
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
        self.redraw_s = 1.0 if over_ssh() else 0.5
        if over_ssh():
            self.animation_level = "none"
        self.register_theme(ZOO)
        self.theme = ZOO.name

    async def action_go(self, mode: str) -> None:
        """Goes to a place, whatever is open there."""
        await self.switch_mode(mode)
        while len(self.screen_stack) > 1:
            await self.pop_screen()

    def action_start(self, path: str = "") -> None:
        """Opens the screen that starts a training, with a file of examples if one is known."""
        from zoo.gym.tui.screens.start import StartScreen

        if not isinstance(self.screen, StartScreen):
            self.push_screen(StartScreen(path))

    async def action_watch(self, run_id: str) -> None:
        """Opens a run in the place of runs."""
        from zoo.gym.tui.screens.run import RunScreen

        await self.action_go("runs")
        await self.push_screen(RunScreen(run_id))

    def action_command(self, words: str) -> None:
        """Runs one of our own commands and shows what it prints."""
        from zoo.gym.tui.screens.command import CommandScreen

        self.push_screen(CommandScreen(words))

    def action_explain(self) -> None:
        """Shows which keys do what here."""
        from zoo.gym.tui.dialogs.explain import ExplainDialog

        self.push_screen(ExplainDialog(self.screen))
