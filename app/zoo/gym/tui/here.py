"""The running app, by its own type."""

from typing import TYPE_CHECKING, cast

from textual.dom import DOMNode

if TYPE_CHECKING:
    from zoo.gym.tui.app import GymApp


def app_of(node: DOMNode) -> "GymApp":
    """Returns the app that a screen or widget is in."""
    return cast("GymApp", node.app)
