"""The first screen: what is on this machine, and what to do next."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.events import Paste
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from zoo.gym.errors import GymError
from zoo.gym.jobs import Run, RunRow, displayed_state, list_runs, read_ended
from zoo.gym.paths import folders
from zoo.gym.terminal import visible
from zoo.gym.tui import run_actions
from zoo.gym.tui.machine import available_models, machine_line, missing_models
from zoo.gym.tui.names import run_names
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.lists import Choices

READ_EVERY_S = 2.0
RECENT_S = 3 * 24 * 3600.0
"""How long after its end a run is offered for resuming; older ones are in Runs."""
MOST_RUNS = 3
"""How many runs of each kind are offered here; the rest is in Runs."""

OFFLINE = "Offline: this app sends nothing and downloads nothing."


class HomeScreen(GymScreen):
    """Shows what is on this machine and offers the next steps as a list."""

    HELP = """
Choose with the arrow keys and Enter, or click.

To train on your own examples, drop their file on the terminal: its path is recognised.

Training continues when you close this app.
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
        """Makes the screen; the runs follow once they are read."""
        yield Bar()
        yield Static("On this machine", classes="title")
        yield Static("Reading ...", id="machine", markup=False)
        yield Static("What to do next", classes="title")
        yield Choices(markup=False, compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows what is known at once, then reads the runs."""
        self._offer(offers([], {}, time.time()))
        self.set_interval(READ_EVERY_S, self._read_if_shown)
        self._read_if_shown()

    def on_screen_resume(self) -> None:
        """Reads the runs at once when the screen comes back."""
        self._read_if_shown()

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
            described = await asyncio.to_thread(machine_text, rows)
            names = await asyncio.to_thread(run_names, rows)
        except (GymError, OSError) as error:
            self.query_one("#machine", Static).update(visible(f"The runs cannot be read: {error}"))
            return
        self.query_one("#machine", Static).update(visible(described))
        self._offer(offers(rows, names, time.time()))

    def _offer(self, offered: list[tuple[str, str]]) -> None:
        if offered == self._offers:
            return
        options, ids = self.query_one(Choices), [action for action, _ in offered]
        # the cursor stays on what the user moved it to; unmoved it stays on top
        chosen = options.highlighted_option if options.highlighted else None
        self._offers = offered
        options.clear_options()
        options.add_options(Option(visible(text), id=action) for action, text in offered)
        options.highlighted = ids.index(chosen.id) if chosen and chosen.id in ids else 0


def offers(rows: list[RunRow], names: Mapping[str, str], now: float) -> list[tuple[str, str]]:
    """Returns the next steps, each with its action, the likeliest first."""

    def about(row: RunRow) -> str:
        return _about(row, names.get(row.id, ""))

    live = [row for row in rows if row.state in {"queued", "running"}][:MOST_RUNS]
    rest = [row for row in rows if _is_recent(row, now)][:MOST_RUNS]
    done = [row for row in rows if row.state == "done"][:1]
    new = ("app.start", "Train a model on my examples: drop their file here, or press n")
    offered = [(_watch(row), f"Watch {about(row)}") for row in live]
    offered += [
        (f"resume('{row.id}')", f"Resume {about(row)}")
        if row.state == "paused" or read_ended(Path(row.folder)).resumable
        else (_watch(row), f"Open {about(row)}")
        for row in rest
    ]
    offered.append(new)
    offered += [(_watch(row), f"Open {about(row)}") for row in done]
    if rows:
        offered.append(("app.go('runs')", f"All runs ({len(rows)})"))
    offered.append(
        ("app.command('demo')", "Demo: train, compress and test the built-in model, in minutes")
    )
    offered.append(
        ("app.command('doctor')", "Doctor: test this machine, see what fits and what is missing")
    )
    return offered


def machine_text(rows: list[RunRow]) -> str:
    """Returns machine, models and runs, a line each."""
    models = ", ".join(name for name, _ in available_models())
    absent = ", ".join(entry.alias for entry in missing_models())
    return "\n".join(
        [
            machine_line(),
            f"Models: {models}" + (f" (not downloaded: {absent})" if absent else ""),
            f"Runs: {len(rows)}" if rows else "Runs: none yet",
            OFFLINE,
        ]
    )


def _watch(row: RunRow) -> str:
    return f"app.watch('{row.id}')"


def _is_recent(row: RunRow, now: float) -> bool:
    recent = row.updated > now - RECENT_S
    return row.state == "paused" or (row.state == "interrupted" and recent)


def _about(row: RunRow, name: str) -> str:
    model = (row.model or "?").partition("@")[0]
    step = f"step {row.step} of {row.steps}" if row.steps else f"step {row.step}"
    at = time.strftime("%d %b %H:%M", time.localtime(row.updated))
    run = f"{row.id} {name}".rstrip()
    state = displayed_state(Run(Path(row.folder)), row.state, row.request)
    return f"{run}: {model}, {state} at {step}, {at}"
