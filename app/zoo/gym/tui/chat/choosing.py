"""The part of the chat screen that chooses which models stand side by side."""

import asyncio
import time
from collections.abc import Sequence

from textual import on, work
from textual.widgets import Select, SelectionList

from zoo.gym.errors import GymError
from zoo.gym.jobs import list_runs
from zoo.gym.jobs.command import ask_command
from zoo.gym.tui.chat import sources
from zoo.gym.tui.chat.answers import Columns
from zoo.gym.tui.chat.available import Available, Wanted
from zoo.gym.tui.chat.side import Side
from zoo.gym.tui.chat.sources import MOST_COLUMNS, Source
from zoo.gym.tui.chat.text import MARK, about_base, lesson_choices
from zoo.gym.tui.dialogs.choose import ChooseDialog
from zoo.gym.tui.machine import available_models
from zoo.gym.tui.runs.names import run_names
from zoo.gym.tui.screens.base import GymScreen

READ_EVERY_S = 30.0
"""How old the lists of variants and lessons may be when the screen is shown again."""

MOST_WORDS = f"At most {MOST_COLUMNS} columns fit side by side"


class ChoosingScreen(GymScreen):
    """Reads what can answer, and keeps what is selected of it.

    Attributes:
        available: what was read.
        sources: what can answer on the base.
        columns: those that are selected.
        base: the base.
    """

    def __init__(self) -> None:
        super().__init__()
        self.available = Available()
        self.sources: list[Source] = []
        self.columns: tuple[Source, ...] = ()
        self.base = ""
        self._wanted = Wanted()
        self._read_again = 0.0

    def say(self, text: str) -> None:
        """Shows what is wrong."""
        raise NotImplementedError

    def choose(self, chosen: set[Source]) -> None:
        """Shows a column for each source that is selected."""
        raise NotImplementedError

    def change_base(self, base: str) -> None:
        """Begins anew with another base."""
        raise NotImplementedError

    @property
    def side(self) -> Side:
        """Models, settings and server."""
        return self.query_one(Side)

    def on_screen_resume(self) -> None:
        """Reads the runs again: one may have ended."""
        if self.base:
            self.read()

    def select(
        self, names: Sequence[str] = (), *, base: str = "", lessons: Sequence[str] = ()
    ) -> None:
        """Shows models beside their base, once they are read.

        Args:
            names: done runs, stored variants, and paths of deltas or adapters; those of another
                base are left out.
            base: the base; without it that of the first run, or the one that is shown.
            lessons: libraries of lessons, each as a column of its own.
        """
        self._wanted = Wanted(tuple(names), base, tuple(lessons))
        self._read_again = 0.0  # what is asked for may be new
        if self.is_mounted:
            self.read()

    @work(exclusive=True, group="read")
    async def read(self) -> None:
        """Reads models and runs, then variants and lessons, which are commands."""
        available = self.available
        try:
            available.rows = await asyncio.to_thread(list_runs)
            available.names = await asyncio.to_thread(run_names, available.rows)
        except (GymError, OSError) as error:
            self.say(f"The runs cannot be read: {error}")
        available.models = dict(await asyncio.to_thread(available_models))
        self._list_bases()
        is_whole = time.monotonic() < self._read_again  # the screen is also shown after each dialog
        self.list_sources(is_whole=is_whole)
        if is_whole:
            return
        try:
            available.variants = await ask_command(["variants", "list"])
            available.libraries = await ask_command(["experience", "list"])
        except GymError as error:
            self.say(f"Variants and lessons cannot be listed: {error.message}")
        self._read_again = time.monotonic() + READ_EVERY_S
        self.list_sources()

    def _list_bases(self) -> None:
        base = self.available.base_of(self._wanted, self.base)
        if base != self.base:
            self.change_base(base)
        for path in self._wanted.names:
            if (source := sources.file_source(path)) is not None:
                self.available.add_file(source, self.sources)
        self.side.show_bases(list(self.available.models), self.base)

    def list_sources(self, chosen: set[Source] | None = None, *, is_whole: bool = True) -> None:
        """Lists what can answer; what was selected stays so.

        Args:
            chosen: what is selected.
            is_whole: whether variants and lessons were read, too.
        """
        new = self.available.sources(self.base)
        wanted = self._found(new, is_whole=is_whole)
        if wanted is not None:
            chosen = wanted
        elif chosen is None:
            first = not any(source in new for source in self.columns)
            runs = [source for source in new if source.kind == "run"]
            chosen = {new[0], *runs[:1]} if first else set(self.columns)
        if _lines(new) != _lines(self.sources) or set(self.columns) != chosen:
            self.sources = new
            self.side.show_sources(new, chosen)
        about = self.available.models.get(self.base, "")
        self.side.show_note(about_base(self.base, about, len(new)))
        self.choose(chosen)

    def _found(self, listed: Sequence[Source], *, is_whole: bool) -> set[Source] | None:
        """Returns the base with what another place asked for; None if that has to wait."""
        missing = self.available.missing(self._wanted, listed, self.base)
        if not self._wanted or (missing and not is_whole):
            return None
        if missing:
            self.say(missing)
        wanted, self._wanted = self._wanted, Wanted()
        present = [source for source in listed if wanted.has(source)]
        is_none = bool(missing) and not present
        return None if is_none else {listed[0], *present[: MOST_COLUMNS - 1]}

    @on(Select.Changed, "#base")
    def base_chosen(self, event: "Select.Changed") -> None:
        """Begins anew with another base."""
        if isinstance(event.value, str) and event.value != self.base:
            self.change_base(event.value)
            self.list_sources()

    @on(SelectionList.SelectedChanged, "#sources")
    def sources_chosen(self, event: "SelectionList.SelectedChanged[Source]") -> None:
        """Shows a column for each selected source."""
        chosen = event.selection_list.selected
        if len(chosen) > MOST_COLUMNS:
            self.notify(MOST_WORDS, severity="warning")
            listing = event.selection_list
            with self.prevent(SelectionList.SelectedChanged):
                for source in [each for each in chosen if each not in self.columns]:
                    listing.deselect(source)
            return
        self.choose(set(chosen))

    def action_base(self) -> None:
        """Opens the list of base models."""
        self.remove_class("-no-side")
        self.side.open_bases()

    def action_lessons(self) -> None:
        """Asks which lessons the model under the cursor answers with."""
        source = self._pointed

        def chosen(answer: str | None) -> None:
            if answer is not None:
                self._swap(source, answer.removeprefix(MARK))

        title, choices = lesson_choices(source, self.available.libraries)
        self.app.push_screen(ChooseDialog(title, choices), chosen)

    @property
    def _pointed(self) -> Source:
        """The source of the column or line with the focus, else the first one that is shown."""
        listing = self.side.listing
        if listing.has_focus and listing.highlighted is not None:
            return listing.get_option_at_index(listing.highlighted).value
        columns = self.columns or tuple(self.sources)
        at = self.query_one(Columns).focused_index
        return columns[at] if at < len(columns) else columns[0]

    def _swap(self, source: Source, library: str) -> None:
        """Puts a model with other lessons into the place of its column, or beside the others."""
        joined = self.available.join(source, library, self.base)
        chosen = {*self.columns, joined} - ({source} if joined != source else set())
        if len(chosen) > MOST_COLUMNS:
            self.notify(MOST_WORDS, severity="warning")
            return
        self.list_sources(chosen=chosen)


def _lines(listed: Sequence[Source]) -> list[tuple[Source, str]]:
    """Returns what the list says of sources, which are equal whatever is known about them."""
    return [(source, source.about) for source in listed]
