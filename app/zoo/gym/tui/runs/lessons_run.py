"""What a run about lessons has beside its events: its models, its library, and what it spent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from zoo.gym.errors import GymError
from zoo.gym.files import read_json_object
from zoo.gym.jobs import Run

JOURNAL, LIBRARY = "journal.jsonl", "result/library.json"

_MOST_BYTES = 16_000_000
"""How much of a journal is read at once; the rest follows at the next reading."""


@dataclass(frozen=True)
class Names:
    """What a run is about.

    Attributes:
        model: the model that answers, or the one that is trained.
        teacher: the model that proposes lessons or answers with them; empty for the model itself.
        library: the name of the library.
        on_server: whether the model is on a server.
        model_id: the model as it is given to a command.
    """

    model: str = "?"
    teacher: str = ""
    library: str = "?"
    on_server: bool = False
    model_id: str = "MODEL"


@dataclass
class Spending:
    """The calls of a journal that were answered or lost, and what they cost.

    Attributes:
        calls: how many.
        tokens: of prompts and answers together.
        usd: their price.
        offset: bytes of the journal read so far.
    """

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    offset: int = 0

    def read(self, path: Path) -> bool:
        """Reads what is new in a journal, which a worker may be writing; says whether it was any.

        Raises:
            OSError: it cannot be read.
        """
        try:
            with path.open("rb") as file:
                file.seek(self.offset)
                content = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return False
        complete = content.rfind(b"\n") + 1
        self.offset += complete
        for line in content[:complete].splitlines():
            if line.startswith((b'{"got"', b'{"lost"')):
                self._add(line)
        return complete > 0

    def _add(self, line: bytes) -> None:
        try:
            bill: Mapping[str, Any] = json.loads(line)["bill"]
            tokens = int(bill["prompt_tokens"]) + int(bill["completion_tokens"])
            calls, usd = int(bill["calls"]), float(bill["usd"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return  # damaged: a resume says so
        self.calls, self.tokens, self.usd = self.calls + calls, self.tokens + tokens, self.usd + usd


@dataclass
class LessonsRun:
    """A run that learns lessons, or that turns them into weights.

    Attributes:
        names: what it is about.
        spending: what its calls cost so far.
        lessons: the texts of the library: learned, or distilled.
    """

    names: Names = field(default_factory=Names)
    spending: Spending = field(default_factory=Spending)
    lessons: tuple[str, ...] = ()

    def read(self, run: Run) -> bool:
        """Reads what is new, and says whether it was any.

        Raises:
            OSError: a file cannot be read.
        """
        if self.names == Names():
            self.names = names_of(run)
        changed = self.spending.read(run.folder / JOURNAL)
        file = run.folder / LIBRARY
        if not self.lessons and file.is_file():
            self.lessons = _texts(file)
            changed = changed or bool(self.lessons)
        return changed


def names_of(run: Run) -> Names:
    """Returns what the settings of a run name."""
    from zoo.gym.experience.providers.names import hosted

    env = read_json_object(run.env_file) or {}
    settings = env.get("experience") or env.get("distillation")
    if not isinstance(settings, dict):
        return Names()
    stored = cast("Mapping[str, object]", settings)
    model, teacher = str(stored.get("model") or "?"), str(stored.get("teacher") or "")
    named = env.get("library")
    library = stored.get("name") or (
        cast("Mapping[str, object]", named).get("name") if isinstance(named, dict) else None
    )
    try:
        on_server = hosted(model) is not None
    except GymError:
        on_server = "://" in model
    return Names(short(model), short(teacher), str(library or "?"), on_server, model)


def short(model: str) -> str:
    """Returns the id of a model in few characters: `clerk at 127.0.0.1:8099` for an address."""
    if "://" not in model:
        return model
    url, _, name = model.partition("#")
    return f"{name} at {urlsplit(url).netloc.rpartition('@')[2]}"


def _texts(path: Path) -> tuple[str, ...]:
    from zoo.gym.experience.library.file import read_library

    try:
        library, _ = read_library(path)
    except GymError as error:
        return (error.message,)
    return tuple(lesson.text for lesson in library.items)
