"""A choice among a few, which is marked by a sign and not by its colour alone."""

from textual.content import Content
from textual.widgets import RadioButton


class Radio(RadioButton):
    """A radio button; textual's own shows the same sign in another colour when it is off."""

    @property
    def _button(self) -> Content:
        button = super()._button
        if self.value:
            return button
        return Content(button.plain.replace(self.BUTTON_INNER, " "), spans=list(button.spans))
