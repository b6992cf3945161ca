"""Which models can stand side by side, and which of them another place asks for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.gym.jobs import RunRow
from zoo.gym.tui.chat import sources
from zoo.gym.tui.chat.sources import Source, canonical

Listed = dict[str, Any]
"""What a command that lists something answers."""


@dataclass(frozen=True)
class Wanted:
    """What another place asks to stand side by side, with the base.

    Attributes:
        names: runs, stored variants, and paths of deltas or adapters.
        base: the base; empty is that of the runs.
        lessons: libraries of lessons.
    """

    names: tuple[str, ...] = ()
    base: str = ""
    lessons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.base or self.lessons)

    def has(self, source: Source) -> bool:
        """Returns whether a source is one of those that are asked for."""
        if source.kind == "lessons":
            return source.name in self.lessons
        if source.library:
            return False
        return source.name in self.names or bool(source.path and source.path in self.names)


@dataclass
class Available:
    """What was read of this machine.

    Attributes:
        rows: the runs.
        models: the bases, with what is known of each.
        names: the names that runs were given.
        variants: what `variants list` answers.
        libraries: what `experience list` answers.
        files: dropped deltas and adapters.
        joined: fine-tunes of the base that have a library of lessons in their prompt.
    """

    rows: list[RunRow] = field(default_factory=list[RunRow])
    models: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    variants: Listed = field(default_factory=lambda: {"variants": []})
    libraries: Listed = field(default_factory=lambda: {"libraries": []})
    files: list[Source] = field(default_factory=list[Source])
    joined: list[Source] = field(default_factory=list[Source])

    def base_of(self, wanted: Wanted, base: str) -> str:
        """Returns the base that is asked for, else that of the runs asked for, else `base`."""
        names = list(self.models)
        if wanted.base:
            same = (name for name in names if canonical(name) == canonical(wanted.base))
            base = next(same, base)
        else:
            runs = [row for row in sources.tuned_runs(self.rows) if row.id in wanted.names]
            base = sources.default_base(runs, names) if runs else base
        return base or sources.default_base(self.rows, names)

    def sources(self, base: str) -> list[Source]:
        """Returns all that can answer on a base, the base first."""
        return [
            Source("base", base),
            *sources.run_sources(self.rows, self.names, base),
            *sources.variant_sources(self.variants, base),
            *self.files,
            *self.joined,
            *sources.lesson_sources(self.libraries),
        ]

    def join(self, source: Source, library: str, base: str) -> Source:
        """Returns a source as it answers with a library of lessons; an empty name is none."""
        joined = source.with_lessons(library, base)
        if joined not in self.sources(base):
            self.joined.append(joined)
        return joined

    def missing(self, wanted: Wanted, listed: Sequence[Source], base: str) -> str:
        """Returns what is asked for and is not there, in words; empty if all is."""
        present = [source for source in listed if wanted.has(source)]
        names = {source.name for source in present} | {source.path for source in present}
        tuned = ", ".join(name for name in wanted.names if name not in names)
        lessons = ", ".join(name for name in wanted.lessons if name not in names)
        if wanted.base and canonical(wanted.base) != canonical(base):
            return f"{wanted.base}: expected a model on this machine: 2 and d download it"
        if tuned:
            return f"{tuned}: expected a run that is done, with an adapter"
        return f"{lessons}: expected a library of lessons" if lessons else ""

    def add_file(self, source: Source, listed: Sequence[Source]) -> Source:
        """Adds a delta or an adapter, once, and returns it with a name of its own."""
        added = next((each for each in self.files if each.path == source.path), None)
        if added is None:
            added = sources.renamed(source, listed)
            self.files.append(added)
        return added

    def forget_added(self) -> None:
        """Forgets what was added to the base before."""
        self.files.clear()
        self.joined.clear()
