"""Starts a training from a file of examples, with every default shown before anything happens."""

import asyncio
import shlex
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Paste
from textual.widgets import Button, Footer, Input, RadioSet, Static

from zoo.gym.config.stages import METHODS
from zoo.gym.errors import GymError
from zoo.gym.jobs.command import ask_command
from zoo.gym.terminal import visible
from zoo.gym.tui.machine import available_models, missing_models
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.paste import absolute_path, is_file, pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.start.check import FIELDS, Field, field_of, path_problem, settings_problem
from zoo.gym.tui.start.inspection import inspection_words
from zoo.gym.tui.start.settings import matching_settings, plan_words
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.radio import Radio

NO_FILE = "Drop a file on the terminal, or paste or type its path."
DEFAULTS = "None needed: LoRA of rank 16. Type a part of a name, or ctrl+f searches all."
PAUSE_S = 0.3
LONG_PAUSE_S = 1.2
"""How long a user pauses before what was typed is checked."""


class PathInput(Input):
    """A field for a path: a pasted one replaces it, and the screen inspects it at once."""

    def on_paste(self, event: Paste) -> None:
        """Keeps the field from inserting a paste, which the screen handles."""
        event.prevent_default()


class StartScreen(GymScreen):
    """A form with four parts: examples, model, settings, start.

    Args:
        path: a file of examples, if one is known already.
        model: the model that is chosen at first, if it is on this machine.
        settings: the settings that stand there at first, KEY=VALUE with blanks between them.
    """

    HELP = """
1  The file: json, jsonl or text; its format is detected.
2  The model to start from: move with the arrow keys, select with space.
3  Settings: none are needed. KEY=VALUE changes one, for example max_steps=100. A part of
   a name lists what there is; finetuning_type=qlora, use_dora=true and optim=muon are three.
4  Enter on the button or in the settings starts the training; so does ctrl+s anywhere.
"""
    CSS_PATH = "start.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "begin", "Start"),
        Binding("ctrl+t", "method", "Method", tooltip="choose how the model learns"),
        Binding("ctrl+f", "settings", "Settings", tooltip="search all settings"),
        Binding("ctrl+y", "copy", "Copy"),
        Binding("ctrl+r", "tune", "Tune", show=False, tooltip="search settings by trial runs"),
        Binding("escape", "app.pop_screen", "Back", key_display="Esc"),
    ]

    def __init__(self, path: str = "", model: str = "", settings: str = "") -> None:
        super().__init__()
        self.path, self.stated = path, settings
        self.models = sorted(available_models(), key=lambda row: row[0] != model)
        self._inspecting: tuple[str, ...] | None = None
        self._inspected: tuple[str, ...] | None = None
        self._entered = bool(path)
        self._starting = False
        self._checked: list[str] | None = None

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar("new training")
        with Horizontal(id="form", classes="columns"):
            with VerticalScroll(classes="column", can_focus=False):
                with self._part("1 Examples"):
                    yield PathInput(
                        self.path, placeholder="path of a file", id="path", compact=True
                    )
                    yield Static(NO_FILE, id="found", classes="note", markup=False)
                    yield Static(id="path-problem", classes="problem", markup=False)
                with self._part("2 Model"):
                    with RadioSet(id="model", compact=True):
                        for i, (name, summary) in enumerate(self.models):
                            label = visible(f"{name}  {summary}")
                            yield Radio(label, value=i == 0, compact=True)
                    yield Static(_absent(), classes="note", markup=False)
                    yield Static(id="model-problem", classes="problem", markup=False)
            with VerticalScroll(classes="column", can_focus=False):
                with self._part("3 Settings"):
                    yield Static(DEFAULTS, classes="note", markup=False)
                    yield Input(
                        self.stated, placeholder="KEY=VALUE ...", id="settings", compact=True
                    )
                    yield Static(id="known", markup=False)
                    yield Static(id="settings-problem", classes="problem", markup=False)
                with self._part("4 Start, with this command"):
                    yield Static(id="command", classes="note", markup=False)
                    yield Static(id="plan", classes="note", markup=False)
                    yield Static(id="start-problem", classes="problem", markup=False)
                    yield Button("Start training", variant="primary", id="start", compact=True)
        yield Footer(show_command_palette=False)

    @staticmethod
    def _part(title: str) -> Vertical:
        part = Vertical(classes="panel part")
        part.border_title = title
        return part

    @property
    def has_entries(self) -> bool:
        """Whether a file or settings stand in the form."""
        return any(self.query_one(name, Input).value for name in ("#path", "#settings"))

    def on_mount(self) -> None:
        """Inspects the file at once if there is one."""
        for field in FIELDS:
            self._problem(field, "")
        self._list("")
        self._plan("")
        self._show_command()
        if self.path:
            self._inspect()

    def on_paste(self, event: Paste) -> None:
        """Uses a dropped file, wherever the focus is."""
        self._take_path(event.text)

    @on(Input.Submitted, "#path")
    def path_entered(self) -> None:
        """Inspects the file and offers to start."""
        self._take_path(self.query_one("#path", Input).value)

    @on(Input.Changed, "#path")
    @work(exclusive=True, group="path")
    async def path_typed(self) -> None:
        """Inspects the file once the user pauses, or shows that the path names none."""
        self._problem("path", "")
        await asyncio.sleep(PAUSE_S)
        path = self.typed_path
        if await asyncio.to_thread(is_file, path):
            self._inspect()
        elif path:
            await asyncio.sleep(LONG_PAUSE_S)  # half a path is no error
            self._problem("path", await asyncio.to_thread(path_problem, path))

    @on(Input.Changed, "#settings")
    @work(exclusive=True, group="settings")
    async def settings_typed(self) -> None:
        """Lists the settings that match and checks those given, once the user pauses."""
        await asyncio.sleep(PAUSE_S)
        text = self.query_one("#settings", Input).value
        problem = await asyncio.to_thread(settings_problem, text, typing=True)
        self._list("" if problem else await asyncio.to_thread(matching_settings, text))
        self._problem("settings", problem)
        inspected = self._inspecting or self._inspected
        if inspected is not None and inspected[2:] != tuple(self.stage):
            self._inspect()
        elif not problem and self._inspected is not None:
            await asyncio.sleep(LONG_PAUSE_S)
            await self._check()

    @on(Input.Blurred, "#settings")
    def settings_left(self) -> None:
        """Hides the list of settings."""
        self._list("")

    @on(Input.Changed)
    @on(RadioSet.Changed)
    def changed(self) -> None:
        """Updates the command."""
        self._show_command()

    @on(RadioSet.Changed)
    def other_model(self) -> None:
        """Counts the tokens again, with the tokenizer of the other model."""
        self._problem("model", "")
        if self.typed_path and is_file(self.typed_path):
            self._inspect()

    @on(Button.Pressed, "#start")
    @on(Input.Submitted, "#settings")
    def action_begin(self) -> None:
        """Starts the training, unless it is being started."""
        if not self.typed_path:
            self._problem("path", "expected a file of examples, got none")
            self.query_one("#path").focus()
        elif not self._starting:
            self._starting = True
            for group in ("settings", "inspect"):  # the command checks it all
                self.workers.cancel_group(self, group)
            # a worker of the app: closing the screen must not leave a run half-made
            self.app.run_worker(self._begin())

    @work
    async def action_method(self) -> None:
        """Chooses the method, which becomes a setting."""
        from zoo.gym.tui.dialogs.choose import ChooseDialog
        from zoo.gym.tui.start.settings import method_choices

        choices = await asyncio.to_thread(method_choices)
        if (stage := await self.app.push_screen_wait(ChooseDialog("Method", choices))) is not None:
            self._set("stage", stage)

    @work
    async def action_settings(self) -> None:
        """Searches all settings, and takes over one with its value."""
        from zoo.gym.tui.start.search import SettingsDialog

        if (pair := await self.app.push_screen_wait(SettingsDialog(self.settings))) is not None:
            self._set(*pair)

    def action_tune(self) -> None:
        """Opens the search of settings for this file and model."""
        app_of(self).action_tune(self.typed_path, self.model)

    def _set(self, key: str, value: str) -> None:
        """Writes a setting into the field, in place of an earlier value."""
        others = [word for word in self.settings if word.partition("=")[0] != key]
        field = self.query_one("#settings", Input)
        field.value = " ".join([*others, f"{key}={value}"] if value else others)
        field.focus()

    def action_copy(self) -> None:
        """Copies the command to the clipboard."""
        self.app.copy_to_clipboard(shlex.join(["zoo-gym", *self.words()]))
        self.notify("Copied")

    def words(self) -> list[str]:
        """Returns the command that starts the training, without `zoo-gym`."""
        return ["train", self.typed_path or "FILE", "--model", self.model, *self.settings]

    @property
    def typed_path(self) -> str:
        """The file of examples as an absolute path; empty if there is none."""
        path = pasted_path(self.query_one("#path", Input).value)
        return absolute_path(path) if path else ""

    @property
    def settings(self) -> list[str]:
        """The words of the settings field."""
        return self.query_one("#settings", Input).value.split()

    @property
    def stage(self) -> list[str]:
        """The stage among the settings, empty if there is none or an unknown one."""
        stated = [word.partition("=") for word in self.settings]
        return [value for key, _, value in stated if key == "stage" and value in METHODS][-1:]

    @property
    def model(self) -> str:
        """The name of the chosen model."""
        return self.models[max(0, self.query_one(RadioSet).pressed_index)][0]

    def _take_path(self, text: str) -> None:
        self.query_one("#path", Input).value = pasted_path(text)
        self._entered = True
        self._inspect()

    def _inspect(self) -> None:
        path = self.typed_path
        self._problem("path", "")
        key = (path, self.model, *self.stage)
        if key == self._inspected:
            self._go_to_start()
        elif path and key != self._inspecting:
            self._inspecting = key
            self.run_worker(self._ask(*key), exclusive=True, group="inspect")

    async def _ask(self, path: str, model: str, *stage: str) -> None:
        widget = self.query_one("#found", Static)
        widget.update(f"Reading it with the tokenizer of {model} ...")
        chosen = [word for name in stage for word in ("--stage", name)]
        words = ["data", "inspect", path, "--model", model, *chosen, "--offline"]
        try:
            answer = await ask_command(words)
        except GymError as error:
            self._inspecting, self._entered = None, False
            widget.update("This file cannot be used for training.")
            self._refuse(error)
            return
        self._inspected = path, model, *stage
        widget.update(visible(inspection_words(answer, stage_given=bool(stage))))
        self._go_to_start()
        await self._check()

    def _go_to_start(self) -> None:
        """Moves the focus on from a path that was entered, not from one being typed."""
        if self._entered and self.focused is self.query_one("#path"):
            self.query_one("#start").focus()
        self._entered = False

    async def _check(self) -> None:
        """Shows what a run would do, or why it would be refused, before there is a run."""
        words = self.words()
        if words == self._checked:
            return
        self._plan("Checking what this machine can do with these settings ...")
        try:
            answer = await ask_command([*words, "--print-config", "--offline"])
        except GymError as error:
            if words == self.words():
                self._refuse(error)
            return
        self._checked = words
        self._plan(plan_words(answer))

    async def _begin(self) -> None:
        button = self.query_one("#start", Button)
        button.label, button.disabled = "Starting ...", True
        self._problem("start", "")
        app = app_of(self)
        words = self.words()
        try:
            if words != self._checked:
                await ask_command([*words, "--print-config", "--offline"])
            answer = await ask_command([*words, "--offline", "--detach"], finish=True)
        except GymError as error:
            self._starting = False
            if self.is_running:
                button.label, button.disabled = "Start training", False
                self.query_one(f"#{self._refuse(error)}").focus()
            else:
                app.notify(visible(error.message), severity="error", markup=False)
            return
        app.notify(f"run {answer['run']} has started", markup=False)
        if app.screen is self:
            await app.action_watch(str(answer["run"]))

    def _show_command(self) -> None:
        command = visible(shlex.join(["zoo-gym", *self.words()]))
        self.query_one("#command", Static).update(command)

    def _refuse(self, error: GymError) -> Field:
        """Shows the error of a command below the field that it is about, and returns that field."""
        hint = f"\n{error.hint}" if error.hint else ""
        field = field_of(error, self.typed_path, self.settings)
        self._problem(field, f"{error.message}{hint}")
        self.query_one(f"#{field}-problem").scroll_visible()
        return field

    def _plan(self, text: str) -> None:
        widget = self.query_one("#plan", Static)
        widget.display = bool(text)
        widget.update(visible(text))

    def _list(self, text: str) -> None:
        """Shows settings above what is below their field, so that nothing moves."""
        widget = self.query_one("#known", Static)
        widget.display = bool(text) and self.focused is self.query_one("#settings")
        widget.update(visible(text))

    def _problem(self, field: Field, text: str) -> None:
        if text:
            self._plan("")
            self._checked = None
        widget = self.query_one(f"#{field}-problem", Static)
        widget.display = bool(text)
        widget.update(visible(text))


def _absent() -> str:
    absent = missing_models()
    if not absent:
        return "Any other model: zoo-gym train FILE --model NAME"
    names = ", ".join(entry.alias for entry in absent)
    return f"Not downloaded: {names}. Models (Esc, then 2) has sizes, licences, downloads."
