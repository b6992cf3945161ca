"""The first place: what is here, and what to do next, in words."""

import asyncio
import time
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.events import Paste
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from zoo.gym.errors import GymError
from zoo.gym.jobs import RunRow, list_runs
from zoo.gym.terminal import visible
from zoo.gym.tui.app import app_of
from zoo.gym.tui.machine import machine_line, models_elsewhere, models_here
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import Choices

LOOK_S = 2.0
MOST_RUNS = 3
"""Runs of each kind that are offered here; the rest is in Runs."""

SILENCE = "Nothing leaves this machine; nothing is fetched here without your yes."


class HomeScreen(GymScreen):
    """Tells what is here and offers the next steps as a list."""

    HELP = """
Choose with the arrow keys and Enter, or click.

To train on examples of your own, drop their file on the terminal: its path is recognised.

Training goes on when this app is closed.
"""
    CSS: ClassVar[str] = """
    HomeScreen .title { padding: 0 1; text-style: bold; color: $primary; margin-top: 1; }
    HomeScreen #machine { padding: 0 1 0 3; height: auto; }
    HomeScreen Choices { border: none; height: 1fr; padding: 0 1; background: $background; }
    HomeScreen Choices:focus { background-tint: transparent; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._offers: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        """Makes the screen; the runs come when they are read."""
        yield Bar()
        yield Static("What is here", classes="title")
        yield Static("Looking ...", id="machine", markup=False)
        yield Static("What to do next", classes="title")
        yield Choices(markup=False, compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows what is known at once, then looks for runs."""
        self._offer(offers([]))
        self.set_interval(LOOK_S, self._look_if_shown)
        self._look_if_shown()

    def on_screen_resume(self) -> None:
        """Looks at once when the screen comes back."""
        self._look_if_shown()

    def on_paste(self, event: Paste) -> None:
        """Takes a file that is dropped on the terminal as one to train on."""
        app_of(self).action_start(pasted_path(event.text))

    async def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Does what was chosen."""
        await self.run_action(event.option_id or "")

    def _look_if_shown(self) -> None:
        if self.app.screen is self:
            self._look()

    @work(exclusive=True)
    async def _look(self) -> None:
        try:
            rows = await asyncio.to_thread(list_runs)
            about = await asyncio.to_thread(about_here, rows)
        except (GymError, OSError) as error:
            self.query_one("#machine", Static).update(visible(f"Something cannot be read: {error}"))
            return
        self.query_one("#machine", Static).update(visible(about))
        self._offer(offers(rows))

    def _offer(self, found: list[tuple[str, str]]) -> None:
        if found == self._offers:
            return
        options, ids = self.query_one(Choices), [action for action, _ in found]
        # the cursor stays on what the user moved it to; unmoved it stays on top
        chosen = options.highlighted_option if options.highlighted else None
        self._offers = found
        options.clear_options()
        options.add_options(Option(visible(text), id=action) for action, text in found)
        options.highlighted = ids.index(chosen.id) if chosen and chosen.id in ids else 0


def offers(rows: list[RunRow]) -> list[tuple[str, str]]:
    """Returns what can be done next, each with its action, the likeliest first."""
    live = [row for row in rows if row.state in {"queued", "running"}][:MOST_RUNS]
    rest = [row for row in rows if row.state in {"paused", "interrupted"}][:MOST_RUNS]
    done = [row for row in rows if row.state == "done"][:1]
    new = ("app.start", "Train a model on my examples: drop their file here, or press n")
    found = [(_watch(row), f"Watch {_about(row)}") for row in live]
    found += [(_watch(row), f"Go on with {_about(row)}") for row in rest]
    found.append(new)
    found += [(_watch(row), f"See how {_about(row)}") for row in done]
    if rows:
        found.append(("app.go('runs')", f"All runs ({len(rows)})"))
    found.append(
        ("app.command('demo')", "Demo: the whole job on the built-in model, a minute or two")
    )
    found.append(
        ("app.command('doctor')", "Doctor: a test of this machine, what fits, what is missing")
    )
    return found


def about_here(rows: list[RunRow]) -> str:
    """Returns machine, models and runs, a line each."""
    models = ", ".join(name for name, _ in models_here())
    absent = ", ".join(models_elsewhere())
    return "\n".join(
        [
            machine_line(),
            f"Models: {models}" + (f" (not here: {absent})" if absent else ""),
            f"Runs: {len(rows)}" if rows else "Runs: none yet",
            SILENCE,
        ]
    )


def _watch(row: RunRow) -> str:
    return f"app.watch('{row.id}')"


def _about(row: RunRow) -> str:
    model = (row.model or "?").partition("@")[0]
    step = f"step {row.step} of {row.steps}" if row.steps else f"step {row.step}"
    at = time.strftime("%d %b %H:%M", time.localtime(row.updated))
    return f"{row.id}: {model}, {row.state} at {step}, {at}"
