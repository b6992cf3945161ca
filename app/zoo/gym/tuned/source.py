"""Finds a fine-tune by what a user wrote: a run, an adapter, a delta file, or whole weights.

A source is only looked at here; `opened` reads it on a base.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoo.gym.delta.distilled import DELTA_FILE
from zoo.gym.delta.file.reader import Delta, is_delta, load_delta
from zoo.gym.delta.reading.adapter import is_adapter
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_json_object
from zoo.gym.jobs import Run, open_run, run_around, run_folders
from zoo.gym.jobs.run import is_trial
from zoo.gym.paths import given_path
from zoo.gym.tuned.runs import result_of, run_config
from zoo.models.adapters import CONFIG_FILE
from zoo.models.folder import holds_model, read_object
from zoo.models.names import Name

if TYPE_CHECKING:
    from zoo.gym.config import TrainConfig
    from zoo.gym.delta.reading.remembered import Check

_DATA = (".jsonl", ".csv", ".parquet", ".txt")
"""Endings of files that are trained on and are no weights."""


@dataclass(frozen=True)
class Source:
    """A fine-tune on disk. What its files say is read when it is needed, and once.

    Attributes:
        artifact: an adapter or a delta, which need a base, or a model: whole weights.
        path: a folder, a delta file, or a safetensors file of an adapter or of weights.
        run: the run that trained it, if it was named by that or lies in its result.
    """

    artifact: Literal["adapter", "delta", "model"]
    path: Path
    run: Run | None = None

    @cached_property
    def recorded(self) -> Name | None:
        """The base by the record of the delta, the run or the adapter; None if there is none.

        Raises:
            InputError: the record is damaged, or the adapter has no config.
        """
        if self.artifact == "delta":
            base = self.delta.header.base
            return Name(base.id, base.revision)
        name = self.config.model_name_or_path if self.config is not None else None
        if name is None and self.artifact == "adapter":
            name = _adapter_base(self.folder)
        return Name(name) if name else None

    @property
    def base(self) -> str | None:
        """The recorded base as `zoo.models.resolve` finds it, a delta's with its revision."""
        if (name := self.recorded) is None:
            return None
        return f"{name.id}@{name.revision}" if name.revision else name.id

    @property
    def check(self) -> "Check | None":
        """Refuses weights of another base than a delta's; None for what does not record that."""
        return partial(verify_base, self.delta) if self.artifact == "delta" else None

    @cached_property
    def config(self) -> "TrainConfig | None":
        """The settings of its run, if that is known.

        Raises:
            InputError: they are damaged, or the run learned lessons.
        """
        return run_config(self.run) if self.run is not None else None

    @cached_property
    def delta(self) -> Delta:
        """The delta file, verified.

        Raises:
            NotAvailableError: there is no such file.
            InputError: it is not a valid delta.
        """
        return load_delta(self.path)

    @property
    def folder(self) -> Path:
        """The folder with the fine-tune's other files."""
        return self.path if self.path.is_dir() else self.path.parent


def resolve_tuned(name: str) -> Source:
    """Returns the fine-tune that a user named.

    Args:
        name: a path; or a run by its id, its number, its name or `last`. A path that exists counts
            first.

    Raises:
        InputError: several runs match, the run has no result, or the path is no fine-tune.
        NotAvailableError: there is no such path or run.
    """
    path = given_path(name)
    if path.exists():
        return source_at(path, run_around(path))
    try:
        run = _last_of_models() if name == "last" else open_run(name)
    except NotAvailableError as error:
        raise NotAvailableError(
            f"{name}: expected a run, a model folder or a .safetensors file, got none of these",
            hint=error.hint,
            code="tuned.no_such_source",
        ) from None
    return source_of_run(run)


def _last_of_models() -> Run:
    """Returns the newest run but for trials, and for the deltas that `delta create` trains."""
    of_models = (run for run in run_folders() if not (is_trial(run) or _trained_a_delta(run)))
    return next(of_models, None) or open_run("last")


def _trained_a_delta(run: Run) -> bool:
    settings = (read_json_object(run.env_file) or {}).get("settings")
    return isinstance(settings, dict) and settings.get("stage") == "distill_delta"


def source_of_run(run: Run) -> Source:
    """Returns the result of a run.

    Raises:
        InputError: it has none yet, or learned lessons.
    """
    return source_at(result_of(run), run)


def source_at(path: Path, run: Run | None = None) -> Source:
    """Returns the fine-tune at a path, by its files; a folder of a delta alone is that delta.

    Args:
        path: an existing file or folder; what is missing counts as a model, which cannot be opened.
        run: the run that trained it.

    Raises:
        InputError: it is a file of examples or of another format, or a folder of both a model and
            an adapter.
    """
    if path.is_file() and is_delta(path):
        return Source("delta", path, run)
    if path.is_file() and path.name.endswith(_DATA):
        raise InputError(
            f"{path}: expected a fine-tune (a run, a delta, an adapter, a model), got data",
            hint=f"train on it first: zoo-gym train {path.name}",
            code="tuned.data",
        )
    if is_adapter(path):
        return Source("adapter", path, run)
    trained = path / DELTA_FILE
    if not holds_model(path) and trained.is_file() and is_delta(trained):
        return Source("delta", trained, run)
    return Source("model", path, run)


def _adapter_base(folder: Path) -> str | None:
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: expected a peft folder with {CONFIG_FILE}, got none",
            code="tuned.no_adapter",
        )
    name = read_object(path).get("base_model_name_or_path")
    return name if isinstance(name, str) else None
