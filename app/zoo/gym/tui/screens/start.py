"""Starts a training from a file of examples, with every default shown before anything happens."""

import shlex
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Paste
from textual.widgets import Button, Footer, Input, RadioButton, RadioSet, Static

from zoo.gym.errors import GymError
from zoo.gym.terminal import visible
from zoo.gym.tui.app import app_of
from zoo.gym.tui.cli_process import ask_command
from zoo.gym.tui.machine import models_elsewhere, models_here
from zoo.gym.tui.paste import pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.inspection import inspection_words

NO_FILE = "Drop a file on the terminal, paste its path or type it, then press Enter."
DEFAULTS = (
    "LoRA of rank 16 on all linear layers; a tenth of the examples is held out to measure on; "
    "steps, batch and learning rate are chosen from the data, each told with its reason."
)


class PathInput(Input):
    """A line for a path: what is pasted takes its place, and the screen looks at it at once."""

    def on_paste(self, event: Paste) -> None:
        """Leaves a paste to the screen."""
        event.prevent_default()


class StartScreen(GymScreen):
    """Four short parts from the top: examples, model, settings, start.

    Args:
        path: a file of examples, if one is known already.
    """

    HELP = """
1  The file: json, jsonl or text; its format is found by itself.
2  The model to start from: the arrow keys choose, space takes.
3  Settings: none are needed. KEY=VALUE changes one, as in max_steps=100.
4  Enter on the button or behind the settings starts; so does ctrl+s from anywhere.
"""
    CSS: ClassVar[str] = """
    StartScreen #form { padding: 0 1; height: 1fr; scrollbar-size-vertical: 1; }
    StartScreen .title { text-style: bold; color: $primary; margin-top: 1; }
    StartScreen.-low .title { margin-top: 0; }
    StartScreen Input { margin-left: 2; width: 100%; }
    StartScreen RadioSet { margin-left: 1; border: none; padding: 0; background: $background; }
    StartScreen .said { margin-left: 2; height: auto; color: $text-muted; }
    StartScreen #found { color: $foreground; }
    StartScreen #command { color: $foreground; }
    StartScreen Button { margin: 1 2 0 2; }
    StartScreen.-low Button { margin-top: 0; }
    StartScreen Button:focus { background: $primary; color: $background; text-style: bold; }
    StartScreen #problem { margin-left: 2; height: auto; color: $error; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "begin", "Start"),
        Binding("ctrl+y", "copy", "Copy command"),
        Binding("escape", "app.pop_screen", "Back", key_display="Esc"),
    ]

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.path = path
        self.models = models_here()
        self._asked: tuple[str, str] | None = None
        self._starting = False

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar("new training")
        with VerticalScroll(id="form", can_focus=False):
            yield Static("1 Examples", classes="title")
            yield PathInput(self.path, placeholder="path of a file", id="path", compact=True)
            yield Static(NO_FILE, id="found", classes="said", markup=False)
            yield Static("2 Model", classes="title")
            with RadioSet(id="model", compact=True):
                for i, (name, about) in enumerate(self.models):
                    yield RadioButton(visible(f"{name}  {about}"), value=i == 0, compact=True)
            yield Static(_absent(), classes="said", markup=False)
            yield Static("3 Settings", classes="title")
            yield Static(DEFAULTS, classes="said", markup=False)
            yield Input(placeholder="KEY=VALUE ..., or nothing", id="settings", compact=True)
            yield Static("4 Start: the same as the command", classes="title")
            yield Static(id="command", classes="said", markup=False)
            yield Static(id="problem", markup=False)
            yield Button("Start training", variant="primary", id="start", compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Looks at the file at once where one is known."""
        self.query_one("#problem").display = False
        self._tell_command()
        if self.path:
            self._inspect()

    def on_paste(self, event: Paste) -> None:
        """Takes a dropped file wherever the focus is."""
        self._take_path(event.text)

    @on(Input.Submitted, "#path")
    def path_entered(self) -> None:
        """Looks at the file and offers to start."""
        self._take_path(self.query_one("#path", Input).value)

    @on(Input.Changed)
    @on(RadioSet.Changed)
    def changed(self) -> None:
        """Keeps the command that would do the same up to date."""
        self._tell_command()

    @on(RadioSet.Changed)
    def other_model(self) -> None:
        """Counts the tokens again as another model has them."""
        if self._asked is not None:
            self._inspect()

    @on(Button.Pressed, "#start")
    @on(Input.Submitted, "#settings")
    def action_begin(self) -> None:
        """Starts the training, unless it is being started."""
        if not self._starting:
            self._starting = True
            # the app's own: leaving the screen must not leave a run half-made
            self.app.run_worker(self._begin())

    def action_copy(self) -> None:
        """Puts the command on the clipboard."""
        self.app.copy_to_clipboard(shlex.join(["zoo-gym", *self.words()]))
        self.notify("copied")

    def words(self) -> list[str]:
        """Returns the command that does the same, behind `zoo-gym`."""
        path = pasted_path(self.query_one("#path", Input).value)
        settings = self.query_one("#settings", Input).value.split()
        return ["train", _full(path), "--model", self.model, *settings]

    @property
    def model(self) -> str:
        """The name of the chosen model."""
        return self.models[max(0, self.query_one(RadioSet).pressed_index)][0]

    def _take_path(self, text: str) -> None:
        self.query_one("#path", Input).value = pasted_path(text)
        self._inspect()

    def _inspect(self) -> None:
        path = _full(pasted_path(self.query_one("#path", Input).value))
        self._problem(None)
        if path and (path, self.model) != self._asked:
            self._asked = path, self.model
            self.run_worker(self._ask(path, self.model), exclusive=True, group="inspect")

    async def _ask(self, path: str, model: str) -> None:
        found = self.query_one("#found", Static)
        found.update(f"Reading it as {model} would, which takes some seconds ...")
        words = ["data", "inspect", path, "--model", model, "--offline"]
        try:
            answer = await ask_command(words)
        except GymError as error:
            self._asked = None
            found.update("This file cannot be learned from.")
            self._problem(error)
            self.query_one("#path").focus()
            return
        found.update(visible(inspection_words(answer)))
        if self.focused is self.query_one("#path"):
            self.query_one("#start").focus()

    async def _begin(self) -> None:
        button = self.query_one("#start", Button)
        button.label, button.disabled = "Starting ...", True
        self._problem(None)
        app = app_of(self)
        try:
            answer = await ask_command([*self.words(), "--offline", "--detach"], finish=True)
        except GymError as error:
            self._starting = False
            if self.is_running:
                button.label, button.disabled = "Start training", False
                self._problem(error)
            else:
                app.notify(visible(error.message), severity="error", markup=False)
            return
        app.notify(f"run {answer['run']} has started", markup=False)
        if app.screen is self:
            await app.action_watch(str(answer["run"]))

    def _tell_command(self) -> None:
        command = visible(shlex.join(["zoo-gym", *self.words()]))
        self.query_one("#command", Static).update(command)

    def _problem(self, error: GymError | None) -> None:
        said = self.query_one("#problem", Static)
        said.display = error is not None
        if error is not None:
            hint = f"\n{error.hint}" if error.hint else ""
            said.update(visible(f"{error.message}{hint}"))
            said.scroll_visible()


def _full(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else "FILE"


def _absent() -> str:
    names = models_elsewhere()
    if not names:
        return "Any other model: zoo-gym train FILE --model NAME"
    return f"Not here: {', '.join(names)}; zoo-gym train FILE --model {names[0]} asks to fetch it."
