"""The left side of the chat screen: models, settings of the answers, and the server."""

from collections.abc import Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Label, Select, SelectionList, Static

from zoo.gym.terminal import visible
from zoo.gym.tui.chat.sources import Source

SETTINGS = (("seed", "0"), ("temperature", "0.7"), ("max_tokens", "256"))
"""The name and the first value of each setting."""


class Side(Vertical):
    """Three panels, one above the other."""

    def compose(self) -> ComposeResult:
        """Makes the panels."""
        with Vertical(id="models", classes="panel") as models:
            models.border_title = "Models"
            yield Select[str](
                [], prompt="a base model", id="base", compact=True, type_to_search=False
            )
            yield SelectionList[Source](id="sources", compact=True)
            yield Static("Reading the runs ...", id="listed", classes="note", markup=False)
        with Vertical(id="settings", classes="panel") as settings:
            settings.border_title = "Settings"
            for name, value in SETTINGS:
                with Horizontal(classes="setting"):
                    yield Label(name.replace("_", " "))
                    yield Input(value, id=name, compact=True)
        with Vertical(id="service", classes="panel") as service:
            service.border_title = "Server"
            yield Static(id="server", markup=False)

    def show_bases(self, names: Sequence[str], base: str) -> None:
        """Lists the bases."""
        select: Select[str] = self.query_one("#base", Select)
        with self.prevent(Select.Changed):
            select.set_options((visible(name), name) for name in names)
            if base in names:
                select.value = base

    def open_bases(self) -> None:
        """Opens the list of bases."""
        select: Select[str] = self.query_one("#base", Select)
        select.focus()
        select.action_show_overlay()

    def show_sources(self, sources: Sequence[Source], chosen: set[Source]) -> None:
        """Lists what can answer; the cursor stays where it is."""
        listing = self.listing
        at = listing.highlighted
        with self.prevent(SelectionList.SelectedChanged):
            listing.clear_options()
            listing.add_options((_option(each), each, each in chosen) for each in sources)
        listing.highlighted = min(at or 0, len(sources) - 1)

    def show_note(self, text: str) -> None:
        """Says more about the base."""
        self.query_one("#listed", Static).update(text)

    def show_server(self, text: str, state: str) -> bool:
        """Writes the state of the server, and returns whether it has changed."""
        server = self.query_one("#server", Static)
        if text == server.content:
            return False
        server.update(text)
        self.query_one("#service").border_subtitle = state
        return True

    @property
    def listing(self) -> SelectionList[Source]:
        """The list of what can answer."""
        listing: SelectionList[Source] = self.query_one("#sources", SelectionList)
        return listing

    @property
    def settings(self) -> dict[str, Any]:
        """What requests say besides the prompt.

        Raises:
            ValueError: a setting is no number, or out of its range.
        """
        return read_settings(
            {name: self.query_one(f"#{name}", Input).value.strip() for name, _ in SETTINGS}
        )


def read_settings(texts: dict[str, str]) -> dict[str, Any]:
    """Returns what requests say, from what was typed.

    Raises:
        ValueError: a setting is no number, or out of its range.
    """
    seed = _number(texts, "seed", int, 0, (1 << 63) - 1)
    temperature = _number(texts, "temperature", float, 0, 2)
    most = _number(texts, "max_tokens", int, 1, 1_000_000)
    return {"seed": seed, "temperature": temperature, "max_tokens": most}


def _number(
    texts: dict[str, str], name: str, kind: type[int] | type[float], low: int, high: int
) -> int | float:
    expected = f"{'a whole number' if kind is int else 'a number'} from {low} to {high:,}"
    try:
        number = kind(texts[name])
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise ValueError(f"{name}: expected {expected}, got '{texts[name][:20]}'")
    return number


def _option(source: Source) -> str:
    kind = "base " if source.kind == "base" else ""
    return visible(f"{kind}{source.label}  {source.about}".rstrip())
