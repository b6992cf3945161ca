"""A question before something is ended or deleted."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static


class ConfirmDialog(ModalScreen[bool]):
    """Asks, names the consequence, and answers True only after a yes.

    Args:
        question: what is about to happen.
        consequence: what is lost and what is kept.
        yes: the word on the button that does it.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ConfirmDialog { align: center middle; }
    ConfirmDialog > Vertical {
        width: 64; max-width: 95%; height: auto; padding: 1 2;
        border: round $warning; background: $surface;
    }
    ConfirmDialog #question { text-style: bold; }
    ConfirmDialog #consequence { margin: 1 0; }
    ConfirmDialog Horizontal { height: auto; }
    ConfirmDialog Button { margin-right: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No", key_display="n"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("1,2,3,4,5,6,q,question_mark", "nothing", show=False),
    ]

    def __init__(self, question: str, consequence: str, *, yes: str) -> None:
        super().__init__()
        self.question, self.consequence, self.yes = question, consequence, yes

    def compose(self) -> ComposeResult:
        """Makes the box; the safe answer has the focus."""
        with Vertical():
            yield Static(self.question, id="question", markup=False)
            yield Static(self.consequence, id="consequence", markup=False)
            with Horizontal():
                yield Button("n  No, go back", id="no", compact=True)
                yield Button(f"y  {self.yes}", id="yes", variant="warning", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answers by a click or Enter."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        """Answers by a key."""
        self.dismiss(yes)

    def action_nothing(self) -> None:
        """Keeps the app's own keys from working while the question is open."""


def if_yes(act: Callable[[], object]) -> Callable[[bool | None], None]:
    """Returns what calls `act` after a yes."""

    def answered(yes: bool | None) -> None:
        if yes:
            act()

    return answered
