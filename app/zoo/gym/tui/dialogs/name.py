"""Asks for the name of a run."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class NameDialog(ModalScreen[str | None]):
    """Asks for a name, and answers it after Enter; None after Esc.

    Args:
        run_id: the run's id.
        name: its name so far, which may be edited.
    """

    DEFAULT_CSS: ClassVar[str] = """
    NameDialog { align: center middle; }
    NameDialog > Vertical {
        width: 64; max-width: 95%; height: auto; padding: 1 2;
        border: round $primary; background: $surface;
    }
    NameDialog #question { text-style: bold; margin-bottom: 1; }
    NameDialog #keys { margin-top: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", key_display="Esc"),
    ]

    def __init__(self, run_id: str, name: str | None) -> None:
        super().__init__()
        self.run_id, self.name_before = run_id, name or ""

    def compose(self) -> ComposeResult:
        """Makes the box."""
        with Vertical():
            yield Static(f"Name of run {self.run_id}", id="question", markup=False)
            yield Input(self.name_before, placeholder="no name", id="name", compact=True)
            yield Static("Enter saves, Esc cancels. Every command takes the name.", id="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answers by Enter."""
        self.dismiss(event.value.strip())
