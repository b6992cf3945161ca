"""What can answer in the chat screen: a base, its runs and variants, files, and lessons."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from zoo.gym.jobs import Run, RunRow
from zoo.gym.terminal import visible
from zoo.models import registry

Kind: TypeAlias = Literal["base", "run", "variant", "file", "lessons"]

MOST_COLUMNS = 4
"""More columns are too narrow to read on any terminal."""

MOST_RUNS = 50
"""The newest runs of a base that are offered."""

_ADAPTER = "adapter_config.json"
_NO_NAME = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class Source:
    """One that can answer.

    Attributes:
        kind: what it is.
        name: what the server calls it behind the base, or the base's name.
        about: more words about it, for the list.
        path: of a file or folder.
        library: the lessons in the prompt of a fine-tune; those of the base are a kind.
    """

    kind: Kind
    name: str
    about: str = field(default="", compare=False)
    path: str = ""
    library: str = ""

    @property
    def label(self) -> str:
        """What it is called in the title of a column."""
        words = {"base": "", "lessons": "with lessons "}.get(self.kind, f"{self.kind} ")
        lessons = f"+{self.library}" if self.library else ""
        return visible(f"{words}{self.name}{lessons}")

    @property
    def what(self) -> str:
        """What it is, for a sentence about its effect."""
        if self.kind == "lessons":
            return "library of lessons"
        is_delta = self.kind == "variant" or self.path.endswith(".safetensors")
        kind = "delta" if is_delta else "adapter"
        return f"{kind} with lessons" if self.library else kind

    def with_lessons(self, library: str, base: str) -> "Source":
        """Returns the same model with other lessons in its prompt; an empty name is none."""
        if self.kind in {"base", "lessons"}:
            return Source("lessons", library) if library else Source("base", base)
        return replace(self, library=library)

    def model(self, base: str) -> str:
        """Returns what a request calls it at a server of a base."""
        if self.kind == "base":
            return base
        lessons = f"+{self.library}" if self.library else ""
        return f"{base}{'+' if self.kind == 'lessons' else ':'}{self.name}{lessons}"


def canonical(model: str) -> str:
    """Returns one name for a model that has an alias and an id of the hub; its revision is left."""
    name = model.partition("@")[0]
    return next((entry.alias for entry in registry() if name in (entry.alias, entry.hub_id)), name)


def tuned_runs(rows: Iterable[RunRow]) -> list[RunRow]:
    """Returns the runs that are done and have an adapter, newest first."""
    return [
        row
        for row in rows
        if row.state == "done" and row.model and (Run(Path(row.folder)).result / _ADAPTER).is_file()
    ]


def run_sources(rows: Iterable[RunRow], names: Mapping[str, str], base: str) -> list[Source]:
    """Returns what the runs of a base made."""
    of_base = [row for row in tuned_runs(rows) if canonical(row.model or "") == canonical(base)]
    return [
        Source("run", row.id, " ".join([names.get(row.id, ""), _date(row)]).strip())
        for row in of_base[:MOST_RUNS]
    ]


def variant_sources(listed: Mapping[str, Any], base: str) -> list[Source]:
    """Returns the stored variants of a base, from the answer of `variants list`."""
    return [
        Source("variant", str(entry["name"]))
        for entry in listed["variants"]
        if canonical(str(entry["base"])) == canonical(base)
    ]


def lesson_sources(listed: Mapping[str, Any]) -> list[Source]:
    """Returns the libraries of lessons, from the answer of `experience list`."""
    return [
        Source("lessons", str(entry["name"]), f"{entry['lessons']} in the prompt")
        for entry in listed["libraries"]
    ]


def file_source(path: str) -> Source | None:
    """Returns a delta or an adapter by its path; None for any other file."""
    where = Path(path).expanduser()
    try:
        is_tuned = (where.suffix == ".safetensors" and where.is_file()) or (
            where / _ADAPTER
        ).is_file()
    except OSError:  # too long for a name
        return None
    if not is_tuned:
        return None
    name = _NO_NAME.sub("-", where.absolute().name.removesuffix(".safetensors").lower())
    return Source("file", name.strip("-.")[:64] or "file", path=str(where.absolute()))


def renamed(source: Source, taken: Iterable[Source]) -> Source:
    """Returns a source with a name that no other one has."""
    names, name, count = {each.name for each in taken}, source.name, 1
    while name in names:
        count += 1
        name = f"{source.name[:60]}-{count}"
    return replace(source, name=name)


def named_variants(sources: Sequence[Source]) -> dict[str, str]:
    """Returns what a server has to be told by name: files, and runs that a variant hides.

    It finds other runs and variants of its base itself, when they are asked.
    """
    variants = {source.name for source in sources if source.kind == "variant"}
    named = {source.name: source.path for source in sources if source.kind == "file"}
    hidden = [source for source in sources if source.kind == "run" and source.name in variants]
    return named | {source.name: source.name for source in hidden}


def default_base(rows: Iterable[RunRow], models: Sequence[str]) -> str:
    """Returns the base of the newest tuned run, else the first model that can converse."""
    bases = [canonical(row.model or "") for row in tuned_runs(rows)]
    by_name = {canonical(model): model for model in models}
    of_run = next((by_name[base] for base in bases if base in by_name), None)
    return of_run or next(iter([*models[1:], *models]), "")


def _date(row: RunRow) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(row.updated)) if row.updated else ""
