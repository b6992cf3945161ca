"""Deletes runs: renames the folder to a hidden name, then deletes it."""

import shutil
from pathlib import Path

from zoo.gym.errors import GymError
from zoo.gym.files import private_path
from zoo.gym.jobs.listing import list_runs
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import has_worker
from zoo.gym.paths import storage_error


def size_bytes(folder: Path) -> int:
    """Returns the bytes of all files in a folder; a symbolic link counts as itself."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def remove(run: Run) -> None:
    """Deletes a run's folder; if killed midway, the next removal deletes the rest.

    Raises:
        GymError: the run has a live process, or another run that is not done needs its result.
        StorageError: the folder cannot be deleted.
    """
    if has_worker(run):
        raise GymError(
            f"cannot remove run '{run.id}': expected one without a process, got a live one",
            hint=f"stop it first: zoo-gym runs stop {run.id}",
        )
    _refuse_needed(run)
    try:
        if run.folder.is_symlink():  # the target is not ours to delete
            run.folder.unlink()
            return
        out_of_sight = private_path(run.folder)
        run.folder.rename(out_of_sight)
        shutil.rmtree(out_of_sight)
    except OSError as error:
        raise storage_error(error, run.folder, verb="remove") from error


def _refuse_needed(run: Run) -> None:
    """Refuses to delete the base model of a run that is live or could be resumed."""
    for row in list_runs():
        if row.id == run.id or row.state == "done" or not _is_inside(row.model, run.folder):
            continue
        raise GymError(
            f"cannot remove run '{run.id}': run '{row.id}' is {row.state} and trains on its "
            "result: expected that run to be done or removed",
            hint=f"end it first: zoo-gym runs finish {row.id}, or zoo-gym runs remove {row.id}",
        )


def _is_inside(model: str | None, folder: Path) -> bool:
    """Says whether a base model is in a folder; a hub or built-in name is in no folder."""
    path = Path(model or "").expanduser()
    return path.is_absolute() and path.resolve().is_relative_to(folder.resolve())
