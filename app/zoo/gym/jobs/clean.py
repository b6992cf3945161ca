"""What can be deleted of runs that have ended: checkpoints and temporary files.

A result, the settings, the events and the checkpoint that a resume would continue from are never
among it, nor is any file of a run with a process, queued or paused.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.files import leftovers, read_json_object
from zoo.gym.files.lock import locked
from zoo.gym.jobs.listing import list_runs, stored_yaml
from zoo.gym.jobs.remove import remove_path, size_bytes
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import LIVE, has_worker, read_status
from zoo.gym.paths import folders, given_path
from zoo.gym.train.run_folder.checkpoint import (
    all_checkpoints,
    find_checkpoint,
    older_checkpoints,
    unfinished,
)

CHECKPOINT, TEMPORARY, ANSWERS = "checkpoint", "temporary", "answers"
"""Kinds of what can be deleted; the answers are those of evaluations, which have their figures."""


@dataclass(frozen=True)
class Deletable:
    """A file or folder that can be deleted.

    Attributes:
        kind: `checkpoint`, `temporary` or `answers`.
        run: the run that it is of; None for one of no run.
    """

    path: Path
    kind: str
    size_bytes: int
    run: Run | None = None


def ended_runs() -> list[Run]:
    """Returns the runs that have ended; a damaged one is not among them."""
    rows = [row for row in list_runs() if row.state not in {*LIVE, "damaged"}]
    runs = (Run(Path(row.folder)) for row in rows)
    return [run for run in runs if not (has_worker(run) or run.folder.is_symlink())]


def deletable_of(path: Path, kind: str, run: Run | None = None) -> Deletable:
    """Returns a file or folder with its size."""
    return Deletable(path, kind, size_bytes(path), run)


def deletable_files() -> Iterator[Deletable]:
    """Yields what can be deleted of all runs, and what killed processes left beside them."""
    used = _named_by_runs()
    for run in ended_runs():
        yield from _of_run(run, used)
    if folders().runs.is_dir():
        yield from (deletable_of(path, TEMPORARY) for path in leftovers(folders().runs))


def delete(files: list[Deletable]) -> list[Deletable]:
    """Deletes files and returns those that were; those of a run that was resumed meanwhile stay.

    Raises:
        StorageError: one cannot be deleted.
    """
    deleted: list[Deletable] = []
    used = _named_by_runs()
    runs = {file.run.folder: file.run for file in files if file.run is not None}
    for run in runs.values():
        with locked(run.lock_file) as held:
            if not held:
                continue
            if run.id not in {each.id for each in ended_runs()}:
                continue
            now = {file.path for file in _of_run(run, used)}
            own = [file for file in files if file.run is not None and file.run.id == run.id]
            deleted += [_deleted(f) for f in own if f.path in now or f.kind == ANSWERS]
    return deleted + [_deleted(file) for file in files if file.run is None]


def _of_run(run: Run, used: frozenset[Path]) -> Iterator[Deletable]:
    """Yields what can be deleted of an ended run: of one that is done, all checkpoints."""
    yield from (deletable_of(path, TEMPORARY, run) for path in leftovers(run.folder))
    is_used = run.checkpoints.is_symlink() or run.checkpoints.resolve() in used
    if is_used or not run.checkpoints.is_dir():
        return
    yield from (deletable_of(path, TEMPORARY, run) for path in unfinished(run.checkpoints))
    if read_status(run).state == "done" and run.result.is_dir():
        old = all_checkpoints(run.checkpoints)
    else:
        old = older_checkpoints(run.checkpoints, find_checkpoint(run.checkpoints))
    yield from (deletable_of(path, CHECKPOINT, run) for path in old)


def _named_by_runs() -> frozenset[Path]:
    """Returns the paths in the settings of all runs, with the folders around each.

    A run may continue from the checkpoint of another run, or have trained an adapter on it.
    """
    paths = {path for row in list_runs() for path in _paths_in_settings(Run(Path(row.folder)))}
    return frozenset(folder for path in paths for folder in (path, *path.parents))


def _paths_in_settings(run: Run) -> Iterator[Path]:
    settings, _ = stored_yaml(run)
    start = (read_json_object(run.env_file) or {}).get("cwd", "")
    for text in _texts_in(settings):
        with suppress(InputError):  # a text that is no path
            yield Path(str(start), given_path(text)).resolve()


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_texts_in, value.values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_texts_in, value))


def _deleted(file: Deletable) -> Deletable:
    remove_path(file.path)
    return file
