"""A form for one command: what it needs, the command itself, and what it prints."""

from collections.abc import Callable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Paste
from textual.widget import Widget
from textual.widgets import Button, Footer, Input, Label, Select, Static

from zoo.gym.errors import GymError
from zoo.gym.terminal import visible
from zoo.gym.tui.dialogs.confirm import ConfirmDialog, if_yes
from zoo.gym.tui.paste import absolute_path, pasted_path
from zoo.gym.tui.screens.base import GymScreen
from zoo.gym.tui.share.action import Action, Field, Values, command_text, missing
from zoo.gym.tui.share.asking import Answer, ask_lines
from zoo.gym.tui.widgets.bar import Bar
from zoo.gym.tui.widgets.path_field import PathField
from zoo.gym.tui.widgets.text_log import TextLog

WAITS = "Nothing has run yet. What the command prints is shown here."


class FormScreen(GymScreen):
    """Asks for what a command needs, shows the command, and runs it.

    Args:
        action: the command.
        finished: is called with what the command answered.
    """

    HELP = """
The box at the left has what the command needs, and the command itself; the other one what it \
prints. Nothing runs before the button, or ctrl+s. Esc goes back; it asks first while the command \
runs, and ends it after a yes.
"""
    CSS_PATH = "share_form.tcss"
    AUTO_FOCUS = ""  # it would scroll away from the explanation
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "run", "Run"),
        Binding("ctrl+y", "copy", "Copy command"),
        Binding("escape", "close", "Back", key_display="Esc"),
    ]

    def __init__(self, action: Action, finished: Callable[[Answer], object] | None = None) -> None:
        super().__init__()
        self.action, self.finished = action, finished
        self.running = False
        self._opened: Values = {}
        self._question_open: ConfirmDialog | None = None

    def compose(self) -> ComposeResult:
        """Makes the screen."""
        yield Bar(self.action.title)
        with Container(classes="columns"):
            with VerticalScroll(classes="column panel", id="form", can_focus=False) as form:
                title = self.action.title[:1].upper() + self.action.title[1:]
                form.border_title = Content(visible(title))  # it may have brackets
                yield Static(self.action.about, id="about", classes="note", markup=False)
                for field in self.action.fields:
                    yield Label(field.label, id=f"label-{field.key}", markup=False)
                    yield _widget(field)
                yield Static("The command", classes="title")
                yield Static(id="command", markup=False)
                yield Button(self.action.button, variant="primary", id="run", compact=True)
                yield Static(id="problem", classes="problem", markup=False)
            with Vertical(classes="column panel", id="output") as output:
                output.border_title = "Output"
                yield from self.output()
        yield Footer(show_command_palette=False)

    def output(self) -> ComposeResult:
        """Makes what is inside the box of what the command prints."""
        yield Static(WAITS, id="state", markup=False)
        yield TextLog()

    def on_mount(self) -> None:
        """Shows the command, with the focus on what is to be filled in first."""
        self.query_one("#problem").display = False
        self._opened = self.values
        self._show_command()
        first = missing(self.action.fields, self.values) or next(iter(self.action.fields), None)
        self.query_one(f"#field-{first.key}" if first else "#run").focus(scroll_visible=False)

    def on_paste(self, event: Paste) -> None:
        """Puts a dropped file into the first empty field for a path."""
        paths = [field for field in self.action.fields if field.is_path and not field.choices]
        empty = [field for field in paths if not self.values[field.key]]
        for field in (empty or paths)[:1]:
            self.query_one(f"#field-{field.key}", Input).value = pasted_path(event.text)

    @property
    def has_entries(self) -> bool:
        """Whether fields were changed since the form was opened, and nothing was run."""
        return not self.has_class("ran") and self.values != self._opened

    @property
    def values(self) -> Values:
        """What stands in the fields; paths are absolute."""
        return {field.key: self._value(field) for field in self.action.fields}

    @property
    def words(self) -> list[str]:
        """The command, without `zoo-gym`."""
        return self.action.words(self.values)

    @on(Input.Changed)
    @on(Select.Changed)
    def changed(self) -> None:
        """Updates the command."""
        if self.is_mounted:
            self._show_command()

    @on(Input.Submitted)
    @on(Button.Pressed, "#run")
    def action_run(self) -> None:
        """Runs the command, after a yes where that is due, unless it runs already."""
        if self.running:
            return
        empty = missing(self.action.fields, self.values)
        if empty is not None:
            self.problem(f"{empty.label}: expected a value, got none")
            self.query_one(f"#field-{empty.key}").focus()
            return
        self.ask_first(lambda: self.run_command(self.words))

    def ask_first(self, act: Callable[[], object]) -> None:
        """Calls `act` after a yes, or at once if nothing is asked."""
        asked = self.action.question(self.values)
        if asked is None:
            act()
            return
        dialog = ConfirmDialog(asked.question, asked.consequence, yes=asked.yes)
        self.app.push_screen(dialog, if_yes(act))

    def action_copy(self) -> None:
        """Copies the command to the clipboard."""
        self.app.copy_to_clipboard(command_text(self.words))
        self.notify("Copied")

    def action_close(self) -> None:
        """Goes back; asks first while the command runs."""
        if not self.running:
            self.dismiss()
            return
        consequence = "It is still running. What it has not finished is discarded."
        self._question_open = ConfirmDialog("End this command?", consequence, yes="Yes, end it")
        self.app.push_screen(self._question_open, if_yes(self.dismiss))

    def line(self, text: str) -> None:
        """Shows a line of the command."""
        log = self.query_one(TextLog)
        log.display = True
        log.add(text + "\n")

    def succeeded(self, answer: Answer) -> None:
        """Shows what came out."""
        self.state(self.action.done(answer), "good")

    def state(self, text: str, outcome: str = "") -> None:
        """Shows above the output what is going on, as `good`, `bad` or neither."""
        widget = self.query_one("#state", Static)
        widget.update(visible(text))
        widget.set_class(outcome == "good", "good")
        widget.set_class(outcome == "bad", "bad")

    def problem(self, text: str) -> None:
        """Shows what is wrong below the button; nothing hides it."""
        widget = self.query_one("#problem", Static)
        widget.display = bool(text)
        widget.update(visible(text))
        if text:
            widget.scroll_visible()

    @work(exclusive=True, group="command")
    async def run_command(self, words: list[str]) -> None:
        """Runs a command and shows its lines as they come."""
        self._start(words)
        try:
            answer = await ask_lines(words, self.line)
        except GymError as error:
            self._end()
            self._refuse(error)
            return
        self._end()
        self.succeeded(answer)
        if self.finished is not None:
            self.finished(answer)

    def _start(self, words: list[str]) -> None:
        self.running = True
        self.add_class("ran")
        self.query_one("#run", Button).disabled = True
        self.problem("")
        for log in self.query(TextLog):
            log.empty()
        self.state(f"Running {command_text(words)}")

    def _end(self) -> None:
        self.running = False
        if self._question_open is not None and self._question_open.is_current:
            self._question_open.dismiss(result=False)  # it asks about a command that has ended
        self.query_one("#run", Button).disabled = False

    def _refuse(self, error: GymError) -> None:
        hint = f"\n{error.hint}" if error.hint else ""
        self.state("It failed. Nothing that you entered is lost.", "bad")
        self.problem(f"{error.message}{hint}")

    def _value(self, field: Field) -> str:
        if field.choices:
            return str(self.query_one(f"#field-{field.key}", Select).value)
        text = self.query_one(f"#field-{field.key}", Input).value.strip()
        return absolute_path(pasted_path(text)) if field.is_path and text else text

    def _show_command(self) -> None:
        self.query_one("#command", Static).update(command_text(self.words))


class FormPathField(PathField):
    """A field for a path that takes what is pasted itself."""

    def on_paste(self, event: Paste) -> None:
        """Takes a dropped file in place of what stands there."""
        event.prevent_default()
        event.stop()
        self.value = pasted_path(event.text)


def _widget(field: Field) -> Widget:
    name = f"field-{field.key}"
    if field.choices:
        value = field.value or field.choices[0][1]
        return Select(field.choices, value=value, allow_blank=False, id=name, compact=True)
    kind = FormPathField if field.is_path else Input
    return kind(field.value, placeholder=field.placeholder, id=name, compact=True)
