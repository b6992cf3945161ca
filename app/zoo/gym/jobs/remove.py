"""Deletes runs: first out of sight under a private name, then from the disk."""

import shutil
from pathlib import Path

from zoo.gym.errors import GymError
from zoo.gym.jobs.listing import list_runs
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import has_worker
from zoo.gym.leftovers import private_path
from zoo.gym.paths import storage_error


def size_bytes(folder: Path) -> int:
    """Returns the bytes of all files in a folder; a link counts as itself."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def remove(run: Run) -> None:
    """Deletes a run's folder; of one that is killed on the way the next removal takes the rest.

    Raises:
        GymError: a process works on the run, or another run that is not done needs its result.
        StorageError: the folder cannot be deleted.
    """
    if has_worker(run):
        raise GymError(
            f"cannot remove run '{run.id}': expected one without a process, got one that has it",
            hint=f"stop it first: zoo-gym runs stop {run.id}",
        )
    _refuse_needed(run)
    try:
        if run.folder.is_symlink():  # what it leads to belongs to somebody else
            run.folder.unlink()
            return
        out_of_sight = private_path(run.folder)
        run.folder.rename(out_of_sight)
        shutil.rmtree(out_of_sight)
    except OSError as error:
        raise storage_error(error, run.folder, verb="remove") from error


def _refuse_needed(run: Run) -> None:
    """Refuses to delete the base model of a run that works, or that could go on."""
    for row in list_runs():
        if row.id == run.id or row.state == "done" or not _is_inside(row.model, run.folder):
            continue
        raise GymError(
            f"cannot remove run '{run.id}': run '{row.id}' is {row.state} and is trained on its "
            f"result: expected that run done, or removed",
            hint=f"end it first: zoo-gym runs finish {row.id}, or zoo-gym runs remove {row.id}",
        )


def _is_inside(model: str | None, folder: Path) -> bool:
    """Says whether a base model is in a folder; a name of the hub or a built-in one is in none."""
    path = Path(model or "").expanduser()
    return path.is_absolute() and path.resolve().is_relative_to(folder.resolve())
