"""Deletes files and folders; of a run, renames the folder to a hidden name first."""

import shutil
import time
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.files import private_path, remove_file
from zoo.gym.jobs.listing import list_runs
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import has_worker, read_status
from zoo.gym.paths import storage_error

END_S = 10.0
"""How long a worker may take to exit after its last event."""

_POLL_S = 0.05


def size_bytes(path: Path) -> int:
    """Returns the bytes of a file, or of all files in a folder; a link counts as itself."""
    files = path.rglob("*") if _is_folder(path) else iter((path,))
    return sum(file.lstat().st_size for file in files if not file.is_dir() or file.is_symlink())


def remove_path(path: Path) -> None:
    """Deletes a file or folder; of a symbolic link, not its target.

    Raises:
        StorageError: the system refuses.
    """
    try:
        if _is_folder(path):
            shutil.rmtree(path)
        else:
            remove_file(path)
    except OSError as error:
        raise storage_error(error, path, verb="remove") from error


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def remove(run: Run) -> None:
    """Deletes a run's folder; if killed midway, the next removal deletes the rest.

    A run that has just ended may have a process for a moment; its end is waited for.

    Raises:
        InputError: the run has a live process, or another run that is not done needs its result.
        StorageError: the folder cannot be deleted.
    """
    if not _has_ended(run):
        raise InputError(
            f"cannot remove run '{run.id}': expected one without a process, got a live one",
            hint=f"stop it first: zoo-gym runs stop {run.id}",
            code="jobs.live",
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


def _has_ended(run: Run) -> bool:
    """Says whether a run has no process; waits for one that has written its last event."""
    deadline = time.monotonic() + END_S
    while has_worker(run):
        if read_status(run).live or time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _refuse_needed(run: Run) -> None:
    """Refuses to delete the base model of a run that is live or could be resumed."""
    for row in list_runs():
        if row.id == run.id or row.state == "done" or not _is_inside(row.model, run.folder):
            continue
        raise InputError(
            f"cannot remove run '{run.id}': run '{row.id}' is {row.state} and trains on its "
            "result: expected that run to be done or removed",
            hint=f"end it first: zoo-gym runs finish {row.id}, or zoo-gym runs remove {row.id}",
            code="jobs.result_in_use",
        )


def _is_inside(model: str | None, folder: Path) -> bool:
    """Says whether a base model is in a folder; a hub or built-in name is in no folder."""
    path = Path(model or "").expanduser()
    return path.is_absolute() and path.resolve().is_relative_to(folder.resolve())
