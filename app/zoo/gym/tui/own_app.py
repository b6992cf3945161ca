"""The app that a screen or widget is in."""

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from zoo.gym.tui.app import GymApp


def app_of(node: "DOMNode") -> "GymApp":
    """Returns the app that a screen or widget is in, by its own type."""
    return cast("GymApp", node.app)
