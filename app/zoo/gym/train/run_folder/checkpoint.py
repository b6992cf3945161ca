"""Writes and finds checkpoints so that a kill, full disk or power failure loses no older one.

A checkpoint is written under a temporary name, listed in a manifest, synced to disk, and only then
renamed to `step-00000123`; then its name is written to the text file `latest`. The caller writes
the contents.
"""

import re
import shutil
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.files import sync_file, sync_folder, write_beside
from zoo.gym.paths import PRIVATE_FILE, PRIVATE_FOLDER, ensure_folder, storage_error
from zoo.gym.train.run_folder.manifest import manifest_fault, write_manifest

POINTER, BEST_FOLDER = "latest", "best"

PROGRESS_FILE = "progress.json"
"""In a checkpoint: what was trained so far, beside the state of model and optimizer."""

WRITING = threading.RLock()
"""Held while a checkpoint is written: who ends the process from another thread waits for it."""

STAGES = (
    "written",
    "fsynced-files",
    "fsynced-folder",
    "renamed",
    "fsynced-parent",
    "pointed",
    "pruned",
)
"""The arguments of the hook of `write_checkpoint`, in order."""

# .old is an earlier checkpoint of the same step, while it is being replaced
_FOLDER = re.compile(r"step-(\d{8,})(\.old)?")
# an unfinished checkpoint
_TEMPORARY = re.compile(r"step-\d{8,}\.tmp")


@dataclass(frozen=True)
class Found:
    """The checkpoint to continue from.

    Attributes:
        folder: the newest intact checkpoint, None if there is none.
        step: its step, 0 if there is none.
        warnings: a sentence for each newer one that was skipped, with the reason.
    """

    folder: Path | None
    step: int = 0
    warnings: tuple[str, ...] = ()


def write_checkpoint(
    checkpoints: Path,
    step: int,
    write: Callable[[Path], None],
    *,
    keep: int = 2,
    also: Collection[int] = (),
    hook: Callable[[str], None] | None = None,
) -> Path:
    """Writes the checkpoint of one step and returns its folder, `step-` and eight digits.

    Until the rename the earlier checkpoints are untouched; after it the new one is complete. One of
    the same step is replaced; those of later steps, discarded by a resume, are deleted.

    Args:
        checkpoints: the folder of all checkpoints of a run; only one process may write to it.
        step: the number of optimizer steps done.
        write: writes the files into the empty folder that it receives.
        keep: the number of checkpoints to keep, this one included.
        also: further steps whose checkpoints are kept.
        hook: called with each of `STAGES` when it is reached; for tests that kill the process.

    Raises:
        StorageError: the disk is full or not writable; earlier checkpoints are unchanged.
    """
    if step < 0 or keep < 1:
        raise ValueError(f"a checkpoint needs step >= 0 and keep >= 1, got {step} and {keep}")
    with WRITING:
        return _write(checkpoints, step, write, keep, also, hook or _nothing)


def _write(
    checkpoints: Path,
    step: int,
    write: Callable[[Path], None],
    keep: int,
    also: Collection[int],
    reached: Callable[[str], None],
) -> Path:
    ensure_folder(checkpoints)
    temporary = checkpoints / f"{folder_name(step)}.tmp"
    try:
        for path in checkpoints.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        _fill(temporary, step, write, reached)
        folder = _put_in_place(temporary)
        reached("renamed")
        sync_folder(checkpoints)
        reached("fsynced-parent")
        write_beside(checkpoints / POINTER, folder.name + "\n", sync=True)
        reached("pointed")
        _prune(checkpoints, step, keep, also)
    except OSError as error:
        raise storage_error(error, checkpoints) from error
    reached("pruned")
    return folder


def folder_name(step: int) -> str:
    """Returns the name of a step's checkpoint."""
    return f"step-{step:08d}"


def newest_step(checkpoints: Path) -> int:
    """Returns the step of the newest checkpoint, without reading it; 0 if there is none."""
    return next((step for _, step in _candidates(checkpoints)), 0)


def find_checkpoint(checkpoints: Path) -> Found:
    """Returns the checkpoint to continue from: that in `latest`, else the newest intact one."""
    warnings: list[str] = []
    for folder, step in _candidates(checkpoints):
        fault = manifest_fault(folder, step)
        if fault is None:
            return Found(folder, step, tuple(warnings))
        warnings.append(f"checkpoint '{folder}' is damaged and was skipped: it has {fault}")
    return Found(None, warnings=tuple(warnings))


def all_checkpoints(checkpoints: Path) -> list[Path]:
    """Returns every checkpoint of a step, and the folder of the best ones if it is there."""
    names = [*_step_folders(checkpoints), BEST_FOLDER]
    return sorted(path for name in names if (path := checkpoints / name).is_dir())


def older_checkpoints(checkpoints: Path, kept: Found) -> list[Path]:
    """Returns the checkpoints of steps before that of `kept`; none if there is none to keep."""
    if kept.folder is None:
        return []
    steps = _step_folders(checkpoints).items()
    return sorted(checkpoints / name for name, step in steps if step < kept.step)


def unfinished(checkpoints: Path) -> list[Path]:
    """Returns what a killed process left of checkpoints that it had not finished."""
    return sorted(path for path in checkpoints.iterdir() if _TEMPORARY.fullmatch(path.name))


def checkpoint_to_resume(checkpoints: Path) -> Found:
    """Returns the same as `find_checkpoint`, but does not let a run silently start over.

    Raises:
        InputError: all checkpoints are damaged.
    """
    checkpoint = find_checkpoint(checkpoints)
    if checkpoint.folder is None and checkpoint.warnings:
        names = ", ".join(folder.name for folder, _ in _candidates(checkpoints))
        run = checkpoints.parent
        raise InputError(
            f"run {run.name} cannot be resumed: expected an intact checkpoint, "
            f"got only damaged ones: {names}",
            hint=f"put one back, or start a new run: zoo-gym train {run / 'config.yaml'}",
            code="train.not_resumable",
        )
    return checkpoint


def _fill(
    temporary: Path, step: int, write: Callable[[Path], None], reached: Callable[[str], None]
) -> None:
    temporary.mkdir(mode=PRIVATE_FOLDER)
    try:
        write(temporary)
        reached("written")
        write_manifest(temporary, step)
        inside = sorted(temporary.rglob("*"))
        for path in inside:
            if path.is_file():
                path.chmod(PRIVATE_FILE)
                sync_file(path)
        reached("fsynced-files")
        for folder in (*(path for path in inside if path.is_dir()), temporary):
            folder.chmod(PRIVATE_FOLDER)
            sync_folder(folder)
    except Exception:
        shutil.rmtree(temporary, ignore_errors=True)  # free the space on a full disk
        raise
    reached("fsynced-folder")


def _put_in_place(temporary: Path) -> Path:
    folder = temporary.with_suffix("")
    if folder.exists():
        # a folder cannot be renamed onto another; the older one stays intact until the end
        old = folder.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    return temporary.rename(folder)


def _candidates(checkpoints: Path) -> Iterator[tuple[Path, int]]:
    steps = _step_folders(checkpoints)
    try:
        pointed = (checkpoints / POINTER).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        pointed = ""
    # "step-00000001" was written after "step-00000001.old"
    rank = {name: (name == pointed, step, "." not in name) for name, step in steps.items()}
    order = sorted(rank, key=lambda name: rank[name], reverse=True)
    return ((checkpoints / name, steps[name]) for name in order)


def _step_folders(checkpoints: Path) -> dict[str, int]:
    if not checkpoints.is_dir():
        return {}
    names = (path.name for path in checkpoints.iterdir() if path.is_dir())
    return {name: int(match[1]) for name in names if (match := _FOLDER.fullmatch(name))}


def _prune(checkpoints: Path, step: int, keep: int, also: Collection[int]) -> None:
    steps = _step_folders(checkpoints)
    newest = sorted({number for number in steps.values() if number <= step}, reverse=True)[:keep]
    for name, number in steps.items():
        if number not in {*newest, *also} or "." in name:
            shutil.rmtree(checkpoints / name, ignore_errors=True)  # the next checkpoint tries again


def _nothing(_: str) -> None:
    pass
