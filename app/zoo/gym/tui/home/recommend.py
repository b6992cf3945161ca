"""What do you have, what do you want: from a file to method, recipe and settings, with reasons."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Paste
from textual.widgets import Button, Footer, Input, RadioSet, Static

from zoo.gym.errors import GymError
from zoo.gym.jobs.command import ask_command
from zoo.gym.terminal import visible
from zoo.gym.tui.home.advice import advice_content, methods_content, pairs_of
from zoo.gym.tui.machine import available_models
from zoo.gym.tui.own_app import app_of
from zoo.gym.tui.paste import absolute_path, is_file, pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.radio import Radio

PAUSE_S = 0.5
"""How long a user pauses before what was typed is looked at."""

WANTS = (
    ("", "what such rows are usually made for"),
    ("style", "answers in the manner of mine"),
    ("facts", "knowledge from my texts"),
    ("preference", "the better of two answers"),
    ("reasoning", "right answers, found by thinking"),
    ("tools", "calls of tools"),
    ("lessons", "lessons in text, no training"),
)
"""What can be wanted, as the command names it, in words."""


class RecommendScreen(GymScreen):
    """Shows what `zoo-gym recommend` finds, and opens it as a new training.

    Args:
        path: a file of examples, if one is known already.
    """

    HELP = """
Drop your file, choose what you want from it and which model. The way that fits your rows and \
the memory of this machine is shown with its reasons; Enter on the button opens it as a new run.

Nothing is started or downloaded here.
"""
    CSS_PATH = "recommend.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "open", "Use it"),
        Binding("ctrl+y", "copy", "Copy command"),
        Binding("escape", "app.pop_screen", "Back", key_display="Esc"),
    ]

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.path = path
        self.models = available_models()
        self.advice: dict[str, Any] | None = None

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar("find a way")
        with Horizontal(classes="columns"):
            with Vertical(classes="column", id="asked"):
                with _part("What do you have?"):
                    yield Input(self.path, placeholder="drop a file", id="path", compact=True)
                with _part("What do you want?"), RadioSet(id="want", compact=True):
                    for i, (_, words) in enumerate(WANTS):
                        yield Radio(words, value=i == 0, compact=True)
                with _part("Which model?"), RadioSet(id="model", compact=True):
                    for i, (name, _) in enumerate(self.models):
                        yield Radio(visible(name), value=i == 0, compact=True)
            with VerticalScroll(classes="column panel", id="found") as found:
                found.border_title = "The way"
                yield Static("Reading ...", id="advice", markup=False)
                yield Static(id="problem", classes="problem", markup=False)
                yield Button("Open as a new run", id="open", variant="primary", compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Looks at the file if there is one, else shows what there is."""
        self.query_one("#problem").display = self.query_one("#open").display = False
        self._find()

    def on_paste(self, event: Paste) -> None:
        """Takes a dropped file, wherever the focus is."""
        self.query_one("#path", Input).value = pasted_path(event.text)

    @on(Input.Changed, "#path")
    @on(RadioSet.Changed)
    @work(exclusive=True, group="pause")
    async def changed(self) -> None:
        """Looks again once the user pauses."""
        await asyncio.sleep(PAUSE_S)
        self._find()

    @on(Button.Pressed, "#open")
    def action_open(self) -> None:
        """Opens the way as a new training, or as lessons where nothing is trained."""
        if self.advice is None:
            self.notify("Name a file first: what it has decides the way")
        elif self.advice["recipe"] is None:
            self.run_worker(app_of(self).go("share"))
        else:
            settings = pairs_of(self.advice)
            self.app.pop_screen()
            app_of(self).action_start(self.typed, self.advice["model"], " ".join(settings))

    def action_copy(self) -> None:
        """Copies the command."""
        if self.advice is not None:
            self.app.copy_to_clipboard(str(self.advice["command"]))
            self.notify("Copied")

    @property
    def typed(self) -> str:
        """The file as an absolute path, empty if there is none."""
        path = pasted_path(self.query_one("#path", Input).value)
        return absolute_path(path) if path else ""

    def words(self) -> list[str]:
        """Returns the command, without `zoo-gym`."""
        want = WANTS[max(0, self.query_one("#want", RadioSet).pressed_index)][0]
        if not self.typed:
            return ["recommend", *(["--want", want] if want else [])]
        model = self.models[max(0, self.query_one("#model", RadioSet).pressed_index)][0]
        return ["recommend", self.typed, "--model", model, *(["--want", want] if want else [])]

    @work(exclusive=True, group="find")
    async def _find(self) -> None:
        words, typed = self.words(), self.typed
        if typed and not await asyncio.to_thread(is_file, typed):
            self._show(Content(""), f"{Path(typed).name}: no such file")
            return
        self.query_one("#advice", Static).update("Looking at rows, model and memory ...")
        try:
            answer = await ask_command(words)
        except GymError as error:
            self._show(Content(""), f"{error.message}\n{error.hint or ''}".strip())
            return
        if typed:
            self.advice = answer
            self._show(advice_content(answer), "")
        else:
            self._show(methods_content(answer["methods"]), "")

    def _show(self, content: Content, problem: str) -> None:
        if problem or not self.typed:
            self.advice = None
        self.query_one("#advice", Static).update(content)
        widget = self.query_one("#problem", Static)
        widget.display = bool(problem)
        widget.update(visible(problem))
        self.query_one("#open").display = self.advice is not None


def _part(title: str) -> Vertical:
    part = Vertical(classes="panel part")
    part.border_title = title
    return part
