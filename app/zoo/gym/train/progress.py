"""How far a run has come: what a checkpoint holds besides the policy, and how it is saved."""

import json
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zoo.gym.errors import InputError
from zoo.gym.paths import storage_error
from zoo.gym.train.run_folder.checkpoint import checkpoint_to_resume, folder_name, write_checkpoint
from zoo.gym.train.run_folder.manifest import manifest_fault

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.train.method import Method

STATE_FILE = "progress.json"
BEST_FOLDER = "best"
BEST_FILE = "trained.safetensors"
MODEL_FILE = "model-only.safetensors"
"""In a checkpoint of a run with save_only_model: the trained values, in the policy's place."""


@dataclass
class Progress:
    """Counters that go on after a resume.

    Attributes:
        step: optimizer steps done.
        tokens: learned tokens so far.
        best_step: the step with the best evaluation, 0 before the first one.
        best_score: the figure that decided it; for supervised training nats per token.
        base_score: the same before step 1.
        training_s: seconds spent in steps, on the wall.
        evaluation_s: seconds spent in evaluations, on the wall.
        training_cpu_s: processor seconds spent in steps, over all threads.
    """

    step: int = 0
    tokens: int = 0
    best_step: int = 0
    best_score: float | None = None
    base_score: float | None = None
    training_s: float = 0.0
    evaluation_s: float = 0.0
    training_cpu_s: float = 0.0


class Stopwatch:
    """Wall and processor seconds since it was made or last read."""

    def __init__(self) -> None:
        self.wall_s, self.cpu_s = time.monotonic(), time.process_time()

    def lap(self) -> tuple[float, float]:
        """Returns the seconds since the last lap: wall, processor."""
        wall_s, cpu_s = time.monotonic(), time.process_time()
        passed = wall_s - self.wall_s, cpu_s - self.cpu_s
        self.wall_s, self.cpu_s = wall_s, cpu_s
        return passed


FORMER_NAMES = {"best_loss": "best_score", "base_loss": "base_score"}
"""What counters were called in checkpoints of earlier versions."""


def save(
    method: "Method", progress: Progress, checkpoints: Path, *, only_model: bool = False
) -> Path:
    """Writes policy, optimizer, method and counters as one checkpoint.

    Args:
        method: with its policy.
        progress: the counters.
        checkpoints: of the run.
        only_model: leave out the optimizer and what the method remembers.
    """

    def write(folder: Path) -> None:
        with full_disk_told(folder):
            if only_model:
                _save_trained(method.policy, folder / MODEL_FILE)
            else:
                method.policy.save_checkpoint(folder)
                method.save(folder)
        _write_state(folder, progress)

    return write_checkpoint(checkpoints, progress.step, write)


@contextmanager
def full_disk_told(folder: Path) -> Generator[None]:
    """Turns what the safetensors library says of a failed write into our sentence.

    Raises:
        StorageError: the block could not write.
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise storage_error(_system_error(str(error)), folder) from error


def _system_error(told: str) -> OSError:
    """Returns the system's error, of which the safetensors library keeps the number only."""
    number = re.search(r"os error (\d+)", told)
    if number is None or os.name == "nt":  # Windows numbers its errors in another way
        return OSError(told)
    return OSError(int(number[1]), os.strerror(int(number[1])))


def restore(
    method: "Method", checkpoints: Path, steps: int | None = None
) -> tuple[Progress, tuple[str, ...]]:
    """Loads the newest whole checkpoint into `method`; a fresh `Progress` if there is none.

    Args:
        method: with a policy as it was loaded.
        checkpoints: of the run.
        steps: the run's last step; a checkpoint of the model alone is taken where none follows.

    Returns:
        The counters, and a sentence for each damaged checkpoint that was passed over and for a
        best step that was damaged.

    Raises:
        InputError: there are checkpoints, and all of them are damaged, or the newest holds the
            model alone and steps follow it.
        StorageError: a damaged best step cannot be written again.
    """
    found = checkpoint_to_resume(checkpoints)
    if found.folder is None:
        return Progress(), ()
    progress = Progress(**_read_state(found.folder))
    check_resumable(found.folder, found.step, steps)
    warning = secure_best(method.policy, progress, checkpoints)
    _load(method.policy, found.folder)  # last: the line before may load another one
    if not (found.folder / MODEL_FILE).is_file():
        method.load(found.folder)
    return progress, found.warnings + ((warning,) if warning else ())


def check_resumable(checkpoint: Path, step: int, steps: int | None) -> None:
    """Refuses to train on from a checkpoint that lacks the optimizer's state.

    Args:
        checkpoint: its folder.
        step: its step.
        steps: the run's last step, None for one that is not known yet.

    Raises:
        InputError: steps follow, and the checkpoint holds the model alone.
    """
    if (checkpoint / MODEL_FILE).is_file() and (steps is None or step < steps):
        run = checkpoint.parent.parent.name
        raise InputError(
            f"run {run} cannot be resumed: expected a checkpoint with the optimizer's state, "
            "got the model alone: save_only_model is true",
            hint=f"make a result of its best step: zoo-gym runs finish {run}",
        )


def save_best(policy: "Policy", progress: Progress, checkpoints: Path) -> None:
    """Keeps the trained values of the best step so far, and those that a resume may need.

    Raises:
        StorageError: the disk is full or refuses; what was kept is as it was.
    """

    def write(folder: Path) -> None:
        with full_disk_told(folder):
            _save_trained(policy, folder / BEST_FILE)
        _write_state(folder, progress)

    kept, step = checkpoints / BEST_FOLDER, progress.best_step
    write_checkpoint(kept, step, write, keep=1, also=_bests_named(checkpoints))


def secure_best(policy: "Policy", progress: Progress, checkpoints: Path) -> str | None:
    """Makes sure that `load_best` can read the best step as it was saved.

    A damaged one is written again from the checkpoint of the same step, whose values `policy` then
    holds. Where there is none, `progress` forgets the step, so that the next evaluation counts.

    Returns:
        A sentence that says what was damaged, None where nothing was.

    Raises:
        StorageError: it cannot be written again.
    """
    step, copy = progress.best_step, checkpoints / folder_name(progress.best_step)
    fault = _best_fault(best_folder(checkpoints, step), progress) if step else None
    if fault is None:
        return None
    told = f"the best step, {step}, is damaged: expected its weights as saved, got {fault}"
    if _best_fault(copy, progress) is None:
        _load(policy, copy)
        save_best(policy, progress, checkpoints)
        return f"{told}; they were written again from the checkpoint of that step"
    progress.best_step, progress.best_score = 0, None
    return f"{told}; they are lost, and the best of the evaluations from here on is kept"


def best_folder(checkpoints: Path, step: int) -> Path:
    """Returns where `save_best` keeps the values of a step."""
    return checkpoints / BEST_FOLDER / folder_name(step)


def load_best(policy: "Policy", step: int, checkpoints: Path) -> None:
    """Puts the values of the best step into `policy`; step 0 (none was kept) leaves the last's.

    They are read as they are: `secure_best` comes first.
    """
    from safetensors.numpy import load_file

    if step:
        policy.load_trained(load_file(best_folder(checkpoints, step) / BEST_FILE))


def _save_trained(policy: "Policy", file: Path) -> None:
    from safetensors.numpy import save_file

    save_file(dict(policy.trained()), file)


def _load(policy: "Policy", checkpoint: Path) -> None:
    from safetensors.numpy import load_file

    if (checkpoint / MODEL_FILE).is_file():
        policy.load_trained(load_file(checkpoint / MODEL_FILE))
    else:
        policy.load_checkpoint(checkpoint)


def _write_state(folder: Path, progress: Progress) -> None:
    text = json.dumps(asdict(progress), indent=2)
    (folder / STATE_FILE).write_text(text, encoding="utf-8")


def _bests_named(checkpoints: Path) -> set[int]:
    """Returns the best steps of all checkpoints that are kept: a resume may go back to each."""
    files = checkpoints.glob(f"step-*/{STATE_FILE}")
    return {named[0] for file in files if (named := _best_named(file.parent)) is not None}


def _best_named(folder: Path) -> tuple[int, float] | None:
    """Returns the best step and its loss by the counters in a folder, None for damaged ones."""
    try:
        stored = _read_state(folder)
        return int(stored["best_step"]), float(stored["best_score"])
    except (FileNotFoundError, KeyError, RecursionError, TypeError, ValueError):
        return None


def _best_fault(folder: Path, progress: Progress) -> str | None:
    """Says why a folder does not hold the best step that `progress` names, None where it does."""
    fault = manifest_fault(folder, progress.best_step)
    # a course that was given up may have had another best at the same step
    if fault is None and _best_named(folder) != (progress.best_step, progress.best_score):
        return "those of another course of the run"
    return fault


def _read_state(folder: Path) -> dict[str, Any]:
    """Returns the counters of a checkpoint by the names that they have today.

    Raises:
        ValueError: the file is damaged.
    """
    stored: object = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    if not isinstance(stored, dict):
        raise ValueError(f"{STATE_FILE}: expected an object, got {type(stored).__name__}")
    return {
        FORMER_NAMES.get(name, name): value
        for name, value in cast("dict[str, Any]", stored).items()
    }
