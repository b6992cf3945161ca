"""A zoo-gym command that runs in a process of its own, and what it prints."""

import asyncio
import shlex
from subprocess import STDOUT
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from zoo.gym.errors import GymError
from zoo.gym.jobs.command import Command, end_command, start_command
from zoo.gym.terminal import visible
from zoo.gym.tui.dialogs.confirm import ConfirmDialog, if_yes
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.text_log import TextLog


class CommandScreen(GymScreen):
    """Runs a command to its end; closing the screen earlier asks first.

    Args:
        words: the arguments of `zoo-gym`, quoted as for a shell.
    """

    HELP = "A zoo-gym command and its output. Esc ends a running command, after a confirmation."
    CSS_PATH = "command.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Back", key_display="Esc"),
        Binding("y", "copy", "Copy all"),
    ]

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self._process: Command | None = None

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar(f"zoo-gym {self.words}")
        yield Static(f"Starting zoo-gym {self.words} ...", id="state", markup=False)
        log = TextLog()
        log.add_class("panel", "fills")
        log.border_title = "Output"
        yield log
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Starts the command."""
        self._follow()

    def action_close(self) -> None:
        """Goes back; asks first while the command runs."""
        if self._process is None or self._process.poll() is not None:
            self.dismiss()
            return
        question = f"End zoo-gym {self.words}?"
        consequence = "It is still running. What it has done so far is discarded."
        dialog = ConfirmDialog(question, consequence, yes="Yes, end it")
        self.app.push_screen(dialog, if_yes(self.dismiss))

    def action_copy(self) -> None:
        """Copies the output to the clipboard."""
        self.app.copy_to_clipboard(self.query_one(TextLog).text)
        self.notify("Copied")

    @work
    async def _follow(self) -> None:
        state, log = self.query_one("#state", Static), self.query_one(TextLog)
        try:
            process = self._process = start_command(shlex.split(self.words), stderr=STDOUT)
        except GymError as error:
            state.update(visible(error.message))
            return
        assert process.stdout is not None
        state.update(f"Running zoo-gym {self.words}")
        try:
            while line := await asyncio.to_thread(process.stdout.readline):
                log.add(line.decode("utf-8", "replace").rstrip() + "\n")
            code = await asyncio.to_thread(process.wait)
        finally:
            end_command(process)
        state.update("Done. Esc goes back." if code == 0 else f"Failed with exit code {code}.")
