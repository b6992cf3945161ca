"""The first screen: what is on this machine, what runs, and what to do next."""

import asyncio
import time

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Paste
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from zoo.gym.errors import GymError
from zoo.gym.jobs import Run, list_runs
from zoo.gym.paths import folders
from zoo.gym.terminal import visible
from zoo.gym.tui.home.text import Offer, machine_content, offers, runs_content
from zoo.gym.tui.machine import available_models, missing_models, this_machine
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.runs import actions as run_actions
from zoo.gym.tui.runs.curves import Curves
from zoo.gym.tui.runs.names import run_names
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import Choices

READ_EVERY_S = 2.0
MACHINE_EVERY_S = 10.0
"""Free memory changes at each look: drawn at every one, an idle app would write 3 kB/s."""
WIDE, HIGH = 100, 28
"""The size from which on there are two columns, and two lines an offer; as in the app."""
LIST_SHARE = 0.55
"""The width of the list beside the panels, as in home.tcss."""


class HomeScreen(GymScreen):
    """Shows what is on this machine and offers the next steps as a list."""

    HELP = """
Choose with the arrow keys and Enter, or click.

To train on your own examples, drop their file on the terminal: its path is recognised.

Training continues when you close this app.
"""
    CSS_PATH = "home.tcss"

    def __init__(self) -> None:
        super().__init__()
        self._offers: list[Offer] = []
        self._curves = Curves()
        self._machine_due, self._listed = 0.0, Content("")

    def compose(self) -> ComposeResult:
        """Makes the screen; the runs follow once they are read."""
        yield Bar()
        with Horizontal(classes="columns"):
            choices = Choices(markup=False, compact=True, classes="panel")
            choices.border_title = "What to do next"
            yield choices
            with Vertical(id="here", classes="column"):
                runs = Static("Reading ...", id="runs", classes="panel")
                runs.border_title = "Runs"
                yield runs
                machine = Static("Reading ...", id="machine", classes="panel")
                machine.border_title = "This machine"
                yield machine
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows what is known at once, then reads the runs."""
        self._offer(offers([], {}, time.time()))
        self.set_interval(READ_EVERY_S, self._read_if_shown)

    def on_screen_resume(self) -> None:
        """Reads the runs once the screen is drawn: the first picture does not wait for a disk."""
        self.call_after_refresh(self._read_if_shown)

    def on_resize(self) -> None:
        """Writes the list for the new width."""
        if self.is_mounted:
            self.call_after_refresh(self._write_offers)

    def on_paste(self, event: Paste) -> None:
        """Opens a new training with a file that is dropped on the terminal."""
        app_of(self).action_start(pasted_path(event.text))

    async def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Does what was chosen."""
        await self.run_action(event.option_id or "")

    async def action_resume(self, run_id: str) -> None:
        """Opens a run and resumes it."""
        await app_of(self).action_watch(run_id)
        run_actions.resume(self.app, Run(folders().runs / run_id))

    def _read_if_shown(self) -> None:
        if self.app.screen is self:
            self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        try:
            rows = await asyncio.to_thread(list_runs)
            described = None
            if time.monotonic() >= self._machine_due:
                described = await asyncio.to_thread(_machine)
            names = await asyncio.to_thread(run_names, rows)
            live = [row for row in rows if row.state in {"running", "paused"}]
            losses = await asyncio.to_thread(self._curves.read, live)
        except (GymError, OSError) as error:
            text = f"The runs cannot be read: {error}"
            self.query_one("#runs", Static).update(Content(visible(text)))
            return
        app_of(self).look(rows)
        if described is not None:
            self._machine_due = time.monotonic() + MACHINE_EVERY_S
            self.query_one("#machine", Static).update(described)
        if (listed := runs_content(rows, names, losses)) != self._listed:
            self._listed = listed
            self.query_one("#runs", Static).update(listed)
        self._offer(offers(rows, names, time.time()))

    @property
    def _room(self) -> tuple[int, bool]:
        """The characters of a line of the list, and whether an offer has two of them."""
        narrow = self.size.width < WIDE
        share = 1.0 if narrow else LIST_SHARE
        return int(self.size.width * share) - 5, self.size.height >= HIGH and not narrow

    def _offer(self, offered: list[Offer]) -> None:
        if offered != self._offers:
            self._offers = offered
            self._write_offers()

    def _write_offers(self) -> None:
        """Writes the list; the cursor stays on what the user moved it to, unmoved on top."""
        options, (width, in_two) = self.query_one(Choices), self._room
        chosen = options.highlighted_option if options.highlighted else None
        ids = [offer.action for offer in self._offers]
        options.clear_options()
        options.add_options(
            Option(_prompt(offer, width, in_two=in_two), id=offer.action) for offer in self._offers
        )
        options.highlighted = ids.index(chosen.id) if chosen and chosen.id in ids else 0


def _prompt(offer: Offer, width: int, *, in_two: bool) -> Content:
    title, about = visible(offer.title), visible(offer.about)
    between = "\n  " if in_two else " " * max(2, 24 - len(title))
    room = width - (2 if in_two else len(title + between))
    return Content.assemble(
        (title, "bold"), between, (Content(about).truncate(room, ellipsis=True).plain, "dim")
    )


def _machine() -> Content:
    models = [name for name, _ in available_models()]
    return machine_content(this_machine(), models, len(missing_models()))
