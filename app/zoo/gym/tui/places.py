"""The places of the app: a line each, which the keys, the top line and the palette come from."""

from importlib import import_module
from typing import NamedTuple

from textual.screen import Screen


class Place(NamedTuple):
    """A main screen: its key, its mode and folder, its name, and what it is for."""

    key: str
    mode: str
    name: str
    about: str

    def open(self) -> Screen[None]:
        """Returns a new screen; its module is imported only now."""
        module = import_module(f"zoo.gym.tui.{self.mode}.screen")
        screen: Screen[None] = getattr(module, f"{self.name}Screen")()
        return screen


PLACES = (
    Place("1", "home", "Home", "what is here, what runs, what to do next"),
    Place("2", "models", "Models", "the models on this machine, and others"),
    Place("3", "data", "Data", "what a file of examples would teach"),
    Place("4", "runs", "Runs", "all trainings, live and past"),
    Place("5", "chat", "Chat", "models side by side on the same prompt"),
    Place("6", "share", "Share", "small files, variants, rounds, lessons"),
)
