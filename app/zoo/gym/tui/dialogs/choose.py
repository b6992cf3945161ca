"""A list of which one is chosen."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from zoo.gym.terminal import visible
from zoo.gym.tui.widgets.lists import Choices

WIDTH = 76
Choice = tuple[str, str, str]
"""An answer, its title, and what it means."""


class ChooseDialog(ModalScreen[str]):
    """Answers the choice that was made; None if none was.

    Args:
        title: what is chosen.
        choices: at least one.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ChooseDialog { align: center middle; }
    ChooseDialog > Vertical {
        width: 76; max-width: 95%; height: auto; max-height: 80%; background: $surface;
    }
    ChooseDialog Choices { height: auto; max-height: 100%; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", key_display="Esc"),
        Binding("1,2,3,4,5,6,n,q,question_mark", "nothing", show=False),
    ]

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self.title_text, self.choices = title, choices

    def compose(self) -> ComposeResult:
        """Makes the list."""
        with Vertical(classes="panel") as box:
            box.border_title, box.border_subtitle = self.title_text, "Enter chooses, Esc goes back"
            yield Choices(
                *(Option(line, id=answer) for answer, line in self._lines()), compact=True
            )

    def _lines(self) -> Iterator[tuple[str, Content]]:
        """Yields each answer with a line that fits the box."""
        longest = max(len(title) for _, title, _ in self.choices)
        room = min(WIDTH, int(self.app.size.width * 0.95)) - longest - 6
        for answer, title, text in self.choices:
            meaning = Content(visible(text)).truncate(room, ellipsis=True).plain
            line = (visible(title).ljust(longest), "bold"), "  ", (meaning, "dim")
            yield answer, Content.assemble(*line)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answers by Enter or a click."""
        self.dismiss(event.option_id)

    def action_nothing(self) -> None:
        """Keeps the app's own keys from working while the list is open."""
