"""The commands of ctrl+p: those of the screen's keys, the places, and three themes."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand
from textual.binding import ActiveBinding
from textual.screen import Screen

from zoo.gym.tui.places import PLACES
from zoo.gym.tui.theme import THEMES

if TYPE_CHECKING:
    from zoo.gym.tui.app import GymApp

COMMANDS = (
    ("Find a way", "from your file to method, recipe and settings", "recommend"),
    ("Merge models", "one model of several fine-tunes", "merge"),
    ("Tune settings", "search settings within a budget", "tune"),
    ("Doctor", "test this machine, see what fits and what is missing", "command('doctor')"),
    ("Demo", "train, compress and test the built-in model", "command('demo')"),
)


def is_own(active: ActiveBinding) -> bool:
    """Says whether a key works now and is one of this app; hidden ones are a screen's."""
    key, hidden_one = active.binding, isinstance(active.node, Screen) and active.tooltip
    return active.enabled and bool(key.description) and (key.show or bool(hidden_one))


def commands(app: "GymApp", screen: Screen[Any]) -> Iterator[SystemCommand]:
    """Yields the commands for a screen."""
    for active in screen.active_bindings.values():
        key, text = active.binding, active.binding.description
        if is_own(active):
            tooltip = f"{app.get_key_display(key)}  {active.tooltip}".strip()
            yield SystemCommand(text, tooltip, partial(app.run_action, key.action, active.node))
    for place in PLACES:
        go = partial(app.run_action, f"go('{place.mode}')", app)
        yield SystemCommand(place.name, f"{place.key}  {place.about}", go)
    for title, tooltip, action in COMMANDS:
        yield SystemCommand(title, tooltip, partial(app.run_action, action, app))
    for title, tooltip, name in THEMES:
        yield SystemCommand(f"Theme: {title}", tooltip, partial(setattr, app, "theme", name))
