"""The app itself: its places and the keys that work everywhere."""

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.reactive import reactive
from textual.screen import Screen

from zoo.gym.errors import GymError, InputError
from zoo.gym.terminal import visible
from zoo.gym.tui.alerts import MACHINE_EVERY_S, READ_EVERY_S, Alerts, escape_of
from zoo.gym.tui.machine import this_machine
from zoo.gym.tui.places import PLACES
from zoo.gym.tui.theme import LIGHT, ZOO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zoo.gym.jobs import RunRow

PALETTE_LINES = 8
"""The height of a terminal from which on the list of commands has a line."""


class GymApp(App[None]):
    """The app; each screen is imported when it is first shown."""

    TITLE = "zoo-gym"
    MODES: ClassVar["dict[str, str | Callable[[], Screen[None]]]"] = {
        place.mode: place.open for place in PLACES
    }
    DEFAULT_MODE = PLACES[0].mode
    CSS_PATH = "styles.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide"), (150, "-broad")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (28, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(place.key, f"go('{place.mode}')", place.name, show=False, id=place.mode)
            for place in PLACES
        ),
        Binding("n", "start", "New run", id="start"),
        Binding("question_mark", "explain", "Help", key_display="?", id="help"),
        Binding("f1", "explain", "Help", show=False),  # in a field, where ? is a letter
        Binding("q", "quit", "Quit", id="quit"),
    ]

    active: reactive[int] = reactive(0)
    """The runs that have not ended, as the top line says."""

    def __init__(self) -> None:
        super().__init__()
        over_ssh = bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))
        self.redraw_s = 1.0 if over_ssh else 0.5
        if over_ssh:
            self.animation_level = "none"
        self.alerts = Alerts()
        self._clashes: set[str] = set()
        self.register_theme(ZOO)
        self.register_theme(LIGHT)
        self.theme = ZOO.name

    def on_mount(self) -> None:
        """Takes the user's own keys, and starts to look after runs and machine."""
        self.set_keymap(self._own_keys())
        self.set_interval(READ_EVERY_S, self._look_at_runs)
        self.set_interval(MACHINE_EVERY_S, self._look_at_machine)

    def _own_keys(self) -> dict[str, str]:
        """Returns the user's keys; a file that cannot be read is reported, and changes nothing."""
        from zoo.gym.tui.keymap import keys_in, read_keymap
        from zoo.gym.tui.runs.controls import ControlScreen

        try:
            return read_keymap(keys_in(self.BINDINGS) | keys_in(ControlScreen.BINDINGS))
        except InputError as error:
            text = visible(f"{error.message}\n{error.hint}")
            self.call_after_refresh(self.alert, text, warning=True)  # once there is a screen
            return {}

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: DOMNode) -> None:
        """Reports once what a key of the user's own took the place of."""
        for binding in clashed_bindings:
            text = f"keys.json: {binding.key} was the key of {binding.description}, which has none"
            if text not in self._clashes:
                self._clashes.add(text)
                self.alert(text, warning=True)

    @work(exclusive=True, group="alerts")
    async def _look_at_runs(self) -> None:
        with suppress(GymError, OSError):  # the lists say why runs cannot be read
            for text in await asyncio.to_thread(self.alerts.ended):
                self.alert(text)
        self.active = self.alerts.active

    @work(exclusive=True, group="machine")
    async def _look_at_machine(self) -> None:
        with suppress(OSError):
            for text in self.alerts.needs(await asyncio.to_thread(this_machine)):
                self.alert(text, warning=True)

    def look(self, rows: "Iterable[RunRow]") -> None:
        """Takes the runs that a screen has read."""
        self.alerts.look(rows)
        self.active = self.alerts.active

    def alert(self, text: str, *, warning: bool = False) -> None:
        """Shows a message here, and by the terminal if the user looks elsewhere."""
        severity: SeverityLevel = "warning" if warning else "information"
        self.notify(text, severity=severity, markup=False)
        if not self.app_focus and self._driver is not None:
            self._driver.write(escape_of(text))
            self.bell()

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
        """Shows a place; asks first where a form is left."""
        from zoo.gym.tui.dialogs.confirm import ConfirmDialog, if_yes
        from zoo.gym.tui.screens.base import GymScreen

        if not (isinstance(self.screen, GymScreen) and self.screen.has_entries):
            await self.go(mode)
            return

        question, consequence = "Leave this form?", "What stands in its fields is discarded."
        dialog = ConfirmDialog(question, consequence, yes="Yes, leave it")
        self.push_screen(dialog, if_yes(lambda: self.run_worker(self.go(mode))))

    async def go(self, mode: str) -> None:
        """Shows a place, and closes what is open there."""
        await self.switch_mode(mode)
        while len(self.screen_stack) > 1:
            await self.pop_screen()

    def action_start(self, path: str = "", model: str = "", settings: str = "") -> None:
        """Opens the screen that starts a training, with what is known of it already."""
        from zoo.gym.tui.start.screen import StartScreen

        if not isinstance(self.screen, StartScreen):
            self.push_screen(StartScreen(path, model, settings))

    def action_recommend(self, path: str = "") -> None:
        """Opens the screen that finds a way to train on a file."""
        from zoo.gym.tui.home.recommend import RecommendScreen

        self.push_screen(RecommendScreen(path))

    def action_merge(self) -> None:
        """Opens the form that merges fine-tunes."""
        from zoo.gym.tui.share.form import FormScreen
        from zoo.gym.tui.share.merging import merging

        self.push_screen(FormScreen(merging()))

    def action_tune(self, path: str = "", model: str = "zen-pico") -> None:
        """Opens the form that searches settings."""
        from zoo.gym.tui.share.form import FormScreen
        from zoo.gym.tui.share.tuning import tuning

        self.push_screen(FormScreen(tuning(path, model)))

    async def action_watch(self, run_id: str) -> None:
        """Opens a run on top of the list of runs."""
        from zoo.gym.tui.runs.run import RunScreen

        await self.go("runs")
        await self.push_screen(RunScreen(run_id))

    async def action_compare(
        self, names: "Sequence[str]" = (), base: str = "", lessons: "Sequence[str]" = ()
    ) -> None:
        """Opens Chat with models or lessons beside their base; see `ChatScreen.select`."""
        from zoo.gym.tui.chat.screen import ChatScreen

        await self.go("chat")
        if isinstance(self.screen, ChatScreen):
            self.screen.select(names, base=base, lessons=lessons)

    def action_command(self, words: str) -> None:
        """Runs a zoo-gym command and shows what it prints."""
        from zoo.gym.tui.screens.command import CommandScreen

        self.push_screen(CommandScreen(words))

    def action_explain(self) -> None:
        """Shows what the keys of this screen do."""
        from zoo.gym.tui.dialogs.explain import ExplainDialog

        self.push_screen(ExplainDialog(self.screen))
