"""A field for a prompt of one or more lines."""

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.message import Message
from textual.widgets import TextArea


class PromptArea(TextArea):
    """Grows with its lines; Enter sends, ctrl+j begins a new line.

    A paste is left to the screen, which looks whether it is a dropped file.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", key_display="Enter", priority=True),
        Binding("ctrl+j,shift+enter", "new_line", "New line", key_display="^j", priority=True),
    ]

    @dataclass
    class Submitted(Message):
        """The prompt is to be sent.

        Attributes:
            text: the prompt.
        """

        text: str

    def on_paste(self, event: Paste) -> None:
        """Keeps the field from inserting a paste."""
        event.prevent_default()

    def action_submit(self) -> None:
        """Sends the prompt, after the keys before it: a priority key overtakes those that wait."""
        self.call_later(lambda: self.post_message(self.Submitted(self.text)))

    def action_new_line(self) -> None:
        """Begins a new line, after the keys before it."""
        self.call_later(self.insert, "\n")
