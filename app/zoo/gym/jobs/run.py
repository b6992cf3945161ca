"""A run is a folder: its layout, its id, and how to create and find one.

Ids are `r0001`, `r0002` ...: short to type, and in the order of creation. A number is claimed by
creating its folder, so two runs that start at once get two ids; it is not reused while the folder
or a later one exists.
"""

import difflib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_json_object, read_small, write_beside
from zoo.gym.jobs.control import Control
from zoo.gym.jobs.events import EventLog
from zoo.gym.jobs.identity import write_identity
from zoo.gym.paths import PRIVATE_FOLDER, ensure_folder, folders, storage_error
from zoo.gym.processes import this_process
from zoo.gym.train.run_folder.workspace import ROWS_FILE
from zoo.gym.versions import versions

Kind: TypeAlias = Literal["training", "lessons", "distillation"]
"""What a run does: trains weights, learns lessons in text, or turns lessons into weights."""

VARIANT_KEY = "variant"
"""What `env.json` has of a run that becomes the variant of a user; see `zoo.gym.variants`."""

STUDY_KEY = "study"
"""What `env.json` has of a trial of `zoo-gym tune`: the name of its study."""

_ID = re.compile(r"r(\d{4,})")
_NUMBER = re.compile(r"r?0*(\d+)")


class Run:
    """The folder of one run, with a property for everything in it.

    Args:
        folder: the run folder.

    Attributes:
        folder: the same.
        events: the event log; only the worker writes to it while there is one.
        control: the user's requests to the worker.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = EventLog(folder / "events.jsonl")
        self.control = Control(folder / "control")

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.folder.name

    @property
    def name_file(self) -> Path:
        """The name that the user gave the run; absent for most."""
        return self.folder / "name.txt"

    @property
    def name(self) -> str | None:
        """The name that the user gave the run, None for none; see `zoo.gym.jobs.names`."""
        try:
            text = read_small(self.name_file, most_bytes=1000).decode()
        except (OSError, UnicodeDecodeError):
            return None
        return text.strip() or None

    @property
    def config_file(self) -> Path:
        """The resolved settings that reproduce the run."""
        return self.folder / "config.yaml"

    @property
    def env_file(self) -> Path:
        """The versions, machine and working folder of the run."""
        return self.folder / "env.json"

    @property
    def rows_file(self) -> Path:
        """The examples of a run that were given in Python; absent where files were."""
        return self.folder / ROWS_FILE

    @property
    def worker_log(self) -> Path:
        """Everything the worker prints, including tracebacks."""
        return self.folder / "worker.log"

    @property
    def identity_file(self) -> Path:
        """The process that works on the run, or that is starting it."""
        return self.folder / "worker.json"

    @property
    def lock_file(self) -> Path:
        """The lock that the worker holds for its whole lifetime."""
        return self.folder / "worker.lock"

    @property
    def checkpoints(self) -> Path:
        """One folder per saved step."""
        return self.folder / "checkpoints"

    @property
    def result(self) -> Path:
        """The trained model or adapter."""
        return self.folder / "result"

    @property
    def samples(self) -> Path:
        """Answers sampled during training, one JSON object per line."""
        return self.folder / "samples.jsonl"


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        run: the run's id.
        folder: the run folder, with settings, events and checkpoints.
        model: the trained model: a PEFT folder, or a transformers folder for full training.
        metrics: the measurements; a loss is that of the method, for sft nats per learned token.
    """

    run: str
    folder: Path
    model: Path
    metrics: Mapping[str, Any]


def create_run(config_yaml: str, env: Mapping[str, object]) -> Run:
    """Creates a run folder in state queued; `launch` starts the run.

    Args:
        config_yaml: the resolved settings, stored unchanged.
        env: stored as JSON in addition to `cwd`, `created` and `versions`. Its `without_effect`
            is also part of the first event.

    Raises:
        StorageError: the folder of runs cannot be written.
    """
    parent = ensure_folder(folders().runs)
    try:
        run = Run(_claim_folder(parent))
        stamp = {"cwd": str(Path.cwd()), "created": round(time.time(), 3), "versions": versions()}
        write_beside(run.env_file, json.dumps(stamp | dict(env), indent=2) + "\n")
        write_beside(run.config_file, config_yaml)
        write_identity(run.identity_file, this_process())
    except OSError as error:
        raise storage_error(error, parent) from error
    idle = env.get("without_effect")
    run.events.emit("state", state="queued", **({"without_effect": idle} if idle else {}))
    return run


def open_run(word: str) -> Run:
    """Finds a run by its id, its name, its number, the start of its id, or the word `last`.

    `last` is the newest run that is no trial of a study, and the newest trial if all runs are.

    Raises:
        NotAvailableError: there is no such run.
        InputError: several ids start with it.
    """
    runs = {run.id: run for run in run_folders()}
    if not runs:
        raise NotAvailableError(
            f"no run '{word}': expected a run id, got a folder without runs",
            hint="start one with: zoo-gym train",
            code="jobs.no_such_run",
        )
    if word == "last":
        own = (run for run in runs.values() if not is_trial(run))
        return next(own, None) or next(iter(runs.values()))
    number = _NUMBER.fullmatch(word)
    exact = runs.get(word) or (runs.get(f"r{int(number[1]):04d}") if number else None)
    if exact is not None:
        return exact
    named = {name: run for run in runs.values() if (name := run.name) is not None}
    if word in named:
        return named[word]
    matches = [run for run_id, run in runs.items() if word and run_id.startswith(word)]
    if len(matches) == 1:
        return matches[0]
    raise _ambiguous(word, matches) if matches else _unknown(word, [*named, *runs])


def run_folders() -> list[Run]:
    """Returns every run of this user, newest first."""
    parent = folders().runs
    if not parent.is_dir():
        return []
    names = sorted(
        (path.name for path in parent.iterdir() if _ID.fullmatch(path.name)),
        key=lambda name: int(name[1:]),
        reverse=True,
    )
    return [run for run in (Run(parent / name) for name in names) if _was_begun(run.folder)]


def run_around(path: Path) -> Run | None:
    """Returns the run whose result contains a path, None for any other path."""
    resolved = path.resolve()
    for result in (resolved, resolved.parent):
        run = Run(result.parent)
        if run.result == result and run.config_file.is_file() and run.env_file.is_file():
            return run
    return None


def kind_of(run: Run) -> Kind:
    """Returns what a run does; `training` for one whose `env.json` cannot be read."""
    env = read_json_object(run.env_file) or {}
    if env.get("kind") == "experience":
        return "lessons"
    return "distillation" if "distillation" in env else "training"


def is_experience(run: Run) -> bool:
    """Returns whether a run learns lessons in text, not weights."""
    return kind_of(run) == "lessons"


def is_distillation(run: Run) -> bool:
    """Returns whether a run turns lessons into weights, and measures them after its training."""
    return kind_of(run) == "distillation"


def is_trial(run: Run) -> bool:
    """Returns whether a run is a trial of a study, which no user started by itself."""
    return STUDY_KEY in (read_json_object(run.env_file) or {})


def _was_begun(folder: Path) -> bool:
    """Returns whether a folder is a complete run; a killed creation leaves fewer files."""
    try:
        inside = {path.name for path in folder.iterdir()}
    except PermissionError:
        return True
    except OSError:
        return False
    return bool(inside & {"events.jsonl", "worker.log", "checkpoints", "result"})


def _claim_folder(parent: Path) -> Path:
    taken = [int(match[1]) for path in parent.iterdir() if (match := _ID.fullmatch(path.name))]
    number = max(taken, default=0) + 1
    while True:
        folder = parent / f"r{number:04d}"
        try:
            folder.mkdir(mode=PRIVATE_FOLDER)
        except FileExistsError:
            number += 1
        else:
            return folder


def _ambiguous(name: str, matches: Sequence[Run]) -> InputError:
    names = ", ".join(run.id for run in matches[:5]) + (" ..." if len(matches) > 5 else "")
    return InputError(
        f"run '{name}' is ambiguous: expected one run, got {names}", code="jobs.ambiguous"
    )


def _unknown(name: str, names: Sequence[str]) -> NotAvailableError:
    nearest = next(iter(difflib.get_close_matches(name, names, n=1)), None)
    mean = f". Did you mean '{nearest}'?" if nearest else ""
    return NotAvailableError(
        f"no run '{name}': expected a run's id or name, or 'last', got none of them{mean}",
        hint="list them: zoo-gym runs list",
        code="jobs.no_such_run",
    )
