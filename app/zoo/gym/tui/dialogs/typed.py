"""A question that only a typed word answers with yes: for what cannot be taken back."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class TypedDialog(ModalScreen[bool]):
    """Asks, and answers True only after the word and Enter; Esc answers False.

    Args:
        question: what is about to happen.
        consequence: what it means.
        word: what has to be typed.
    """

    DEFAULT_CSS: ClassVar[str] = """
    TypedDialog { align: center middle; }
    TypedDialog > Vertical {
        width: 68; max-width: 95%; height: auto; padding: 1 2;
        border: round $warning; background: $surface;
    }
    TypedDialog #question { text-style: bold; }
    TypedDialog #consequence { margin: 1 0; }
    TypedDialog #keys { margin-top: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(False)", "No, go back", key_display="Esc"),
    ]

    def __init__(self, question: str, consequence: str, *, word: str) -> None:
        super().__init__()
        self.question, self.consequence, self.word = question, consequence, word

    def compose(self) -> ComposeResult:
        """Makes the box."""
        with Vertical():
            yield Static(self.question, id="question", markup=False)
            yield Static(self.consequence, id="consequence", markup=False)
            yield Input(placeholder=f"type {self.word}", id="word", compact=True)
            yield Static(self._keys(""), id="keys", markup=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Says what Enter would do."""
        self.query_one("#keys", Static).update(self._keys(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answers by Enter once the word stands there."""
        if event.value.strip() == self.word:
            self.dismiss(result=True)

    def _keys(self, typed: str) -> str:
        if typed.strip() == self.word:
            return f"Enter: {self.word}. Esc: no, go back."
        return f"Nothing happens before you type {self.word} and press Enter. Esc goes back."
