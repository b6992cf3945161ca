"""Asks for the name of a run, and checks it while it is typed."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from zoo.gym import jobs
from zoo.gym.errors import InputError
from zoo.gym.jobs import Run


class NameDialog(ModalScreen[str | None]):
    """Asks for a name, and answers it after Enter; None after Esc.

    Args:
        run: the run, whose name so far may be edited.
    """

    DEFAULT_CSS: ClassVar[str] = """
    NameDialog { align: center middle; }
    NameDialog > Vertical {
        width: 64; max-width: 95%; height: auto; padding: 1 2;
        border: round $primary; background: $surface;
    }
    NameDialog #question { text-style: bold; margin-bottom: 1; }
    NameDialog #problem { color: $error; display: none; }
    NameDialog #keys { margin-top: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", key_display="Esc"),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def compose(self) -> ComposeResult:
        """Makes the box."""
        with Vertical():
            yield Static(f"Name of run {self.run.id}", id="question", markup=False)
            yield Input(self.run.name or "", placeholder="no name", id="name", compact=True)
            yield Static("", id="problem", markup=False)
            yield Static("Enter saves, Esc cancels. Every command takes the name.", id="keys")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Shows below the field what is wrong with the name."""
        problem = self._problem(event.value.strip())
        widget = self.query_one("#problem", Static)
        widget.update(problem or "")
        widget.display = problem is not None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answers by Enter if the name is valid."""
        name = event.value.strip()
        if self._problem(name) is None:
            self.dismiss(name)

    def _problem(self, name: str) -> str | None:
        try:
            jobs.check_name(self.run, name or self.run.id)
        except InputError as error:
            return error.message
        return None
