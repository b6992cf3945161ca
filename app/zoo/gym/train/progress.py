"""The progress of a run: the counters in a checkpoint, and how checkpoints are saved."""

import json
import os
import re
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zoo.gym.errors import InputError
from zoo.gym.paths import PRIVATE_FOLDER, storage_error
from zoo.gym.train.run_folder.checkpoint import (
    BEST_FOLDER,
    PROGRESS_FILE,
    checkpoint_to_resume,
    folder_name,
    write_checkpoint,
)
from zoo.gym.train.run_folder.manifest import manifest_fault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy
    from zoo.gym.train.method import Method

BEST_FILE = "trained.safetensors"
MODEL_FILE = "model-only.safetensors"
"""The trained values, instead of the policy, in a checkpoint with save_only_model."""
METHOD_FOLDER = "method"
"""The folder of a checkpoint in which the method keeps its own state."""


@dataclass
class Progress:
    """Counters that continue after a resume.

    Attributes:
        step: optimizer steps done.
        tokens: learned tokens so far.
        best_step: the step with the best evaluation, 0 before the first one.
        best_score: the score of that step; for supervised training nats per token.
        base_score: the score before step 1.
        base_tied: whether that score is 0 because all margins are.
        worse: evaluations since the best one.
        training_s: wall-clock seconds spent in steps.
        evaluation_s: wall-clock seconds spent in evaluations.
        training_cpu_s: CPU seconds spent in steps, over all threads.
        learned: whether a step had a gradient, and passed the checks of the first step.
        stage: the method; empty in checkpoints of earlier versions, as the next two.
        decides: what the best step is chosen by.
        better: whether a lower or a higher value of it is better.
    """

    step: int = 0
    tokens: int = 0
    best_step: int = 0
    best_score: float | None = None
    base_score: float | None = None
    base_tied: bool = False
    worse: int = 0
    training_s: float = 0.0
    evaluation_s: float = 0.0
    training_cpu_s: float = 0.0
    learned: bool = False
    stage: str = ""
    decides: str = ""
    better: str = ""


class Stopwatch:
    """Wall-clock and CPU seconds since its creation or the last lap."""

    def __init__(self) -> None:
        self.wall_s, self.cpu_s = time.monotonic(), time.process_time()

    def lap(self) -> tuple[float, float]:
        """Returns the seconds since the last lap: wall clock, CPU."""
        wall_s, cpu_s = time.monotonic(), time.process_time()
        passed = wall_s - self.wall_s, cpu_s - self.cpu_s
        self.wall_s, self.cpu_s = wall_s, cpu_s
        return passed


FORMER_NAMES = {"best_loss": "best_score", "base_loss": "base_score"}
"""Names of counters in checkpoints of earlier versions, and their current names."""


def save(
    method: "Method",
    progress: Progress,
    checkpoints: Path,
    *,
    only_model: bool = False,
    keep: int = 2,
) -> Path:
    """Writes policy, optimizer, method and counters as one checkpoint.

    Args:
        method: the method with its policy.
        progress: the counters.
        checkpoints: the folder of the run's checkpoints.
        only_model: leave out the state of the optimizer and of the method.
        keep: the number of checkpoints to keep, this one included.
    """

    def write(folder: Path) -> None:
        with safetensors_errors(folder):
            if only_model:
                _save_values(dict(method.policy.trained()), folder / MODEL_FILE)
            else:
                method.policy.save_checkpoint(folder)
                method_folder = folder / METHOD_FOLDER
                method_folder.mkdir(mode=PRIVATE_FOLDER)
                method.save(method_folder)
        _write_state(folder, progress)

    return write_checkpoint(checkpoints, progress.step, write, keep=keep)


@contextmanager
def safetensors_errors(folder: Path) -> Generator[None]:
    """Converts errors of the safetensors library, such as a full disk, into ours.

    Raises:
        StorageError: the block could not write a file.
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise storage_error(_system_error(str(error)), folder) from error


def _system_error(message: str) -> OSError:
    """Returns the system's error, by the number in the safetensors library's message."""
    number = re.search(r"os error (\d+)", message)
    if number is None or os.name == "nt":  # Windows numbers its errors differently
        return OSError(message)
    return OSError(int(number[1]), os.strerror(int(number[1])))


def restore(
    method: "Method", checkpoints: Path, steps: int | None = None
) -> tuple[Progress, tuple[str, ...]]:
    """Loads the newest intact checkpoint into `method`; returns a new `Progress` if there is none.

    Args:
        method: the method, with its policy as loaded.
        checkpoints: the folder of the run's checkpoints.
        steps: the run's last step; a checkpoint without the optimizer is accepted only there.

    Returns:
        The counters, and a warning for each damaged checkpoint that was skipped and for a damaged
        best step.

    Raises:
        InputError: all checkpoints are damaged, the newest lacks the optimizer and steps are left,
            or it was written with another method or another way to choose the best step.
        StorageError: a damaged best step cannot be rewritten.
    """
    checkpoint = checkpoint_to_resume(checkpoints)
    if checkpoint.folder is None:
        return replace(Progress(), **_choice_of(method)), ()
    progress = Progress(**_read_state(checkpoint.folder))
    _check_choice(method, progress, checkpoints.parent.name)
    check_resumable(checkpoint.folder, checkpoint.step, steps)
    warning = secure_best(progress, checkpoints)
    _load(method.policy, checkpoint.folder)
    if not (checkpoint.folder / MODEL_FILE).is_file():
        method_folder = checkpoint.folder / METHOD_FOLDER
        method.load(
            method_folder if method_folder.is_dir() else checkpoint.folder
        )  # in earlier versions it had no folder
    return progress, checkpoint.warnings + ((warning,) if warning else ())


def _choice_of(method: "Method") -> dict[str, Any]:
    """Returns the method of a run and how it chooses the best step."""
    stage = method.plan.config.stage
    return {"stage": stage, "decides": method.decides, "better": method.better}


def _check_choice(method: "Method", progress: Progress, run: str) -> None:
    """Checks that a checkpoint was written with this method, and adds what an old one lacks.

    Raises:
        InputError: with another one; scores of different metrics cannot be compared.
    """
    for name, now in _choice_of(method).items():
        stored = getattr(progress, name)
        if stored not in ("", now):
            raise InputError(
                f"run {run} cannot be resumed: {name}: expected {stored}, with which its "
                f"checkpoint was written, got {now}",
                hint="start a new run for other settings",
                code="train.not_resumable",
            )
        setattr(progress, name, now)


def check_resumable(checkpoint: Path, step: int, steps: int | None) -> None:
    """Checks that training can continue from a checkpoint: it has the optimizer's state.

    Args:
        checkpoint: the folder of the checkpoint.
        step: its step.
        steps: the run's last step, None if it is not known yet.

    Raises:
        InputError: steps are left, and the checkpoint has the model only.
    """
    if (checkpoint / MODEL_FILE).is_file() and (steps is None or step < steps):
        run = checkpoint.parent.parent.name
        raise InputError(
            f"run {run} cannot be resumed: expected a checkpoint with the optimizer's state, "
            "got the model only: save_only_model is true",
            hint=f"make a result of its best step: zoo-gym runs finish {run}",
            code="train.not_resumable",
        )


def save_best(
    values: "Mapping[str, NDArray[np.float32]]", progress: Progress, checkpoints: Path
) -> None:
    """Saves the trained values of the best step, keeping those that a resume may need.

    Raises:
        StorageError: the disk is full or not writable; earlier ones are unchanged.
    """

    def write(folder: Path) -> None:
        with safetensors_errors(folder):
            _save_values(values, folder / BEST_FILE)
        _write_state(folder, progress)

    best, step = checkpoints / BEST_FOLDER, progress.best_step
    write_checkpoint(best, step, write, keep=1, also=_recorded_bests(checkpoints))


def secure_best(progress: Progress, checkpoints: Path) -> str | None:
    """Makes sure that `load_best` can read the best step as it was saved.

    A damaged one is rewritten from the checkpoint of the same step. If there is none, the best step
    in `progress` is reset, and the next evaluation sets it.

    Returns:
        A warning that says what was damaged, or None.

    Raises:
        StorageError: it cannot be rewritten.
    """
    step, copy = progress.best_step, checkpoints / folder_name(progress.best_step)
    fault = _best_fault(best_folder(checkpoints, step), progress) if step else None
    if fault is None:
        return None
    warning = f"the best step, {step}, is damaged: expected its weights as saved, got {fault}"
    if _best_fault(copy, progress) is None:
        save_best(_values_in(copy), progress, checkpoints)
        return f"{warning}; they were rewritten from the checkpoint of that step"
    progress.best_step, progress.best_score = 0, None
    return f"{warning}; they are lost, and only later evaluations are compared"


def best_folder(checkpoints: Path, step: int) -> Path:
    """Returns the folder of the values that `save_best` saved for a step."""
    return checkpoints / BEST_FOLDER / folder_name(step)


def load_best(policy: "Policy", step: int, checkpoints: Path) -> None:
    """Loads the values of the best step into `policy`; step 0 (none saved) changes nothing.

    The file is not checked: call `secure_best` first.
    """
    from safetensors.numpy import load_file

    if step:
        policy.load_trained(load_file(best_folder(checkpoints, step) / BEST_FILE))


def _save_values(values: "Mapping[str, NDArray[np.float32]]", file: Path) -> None:
    from safetensors.numpy import save_file

    save_file(dict(values), file)


def _values_in(checkpoint: Path) -> "Mapping[str, NDArray[np.float32]]":
    """Returns the trained values of a checkpoint, with or without the optimizer's state."""
    from safetensors.numpy import load_file

    only_model = checkpoint / MODEL_FILE
    return load_file(only_model if only_model.is_file() else checkpoint / BEST_FILE)


def _load(policy: "Policy", checkpoint: Path) -> None:
    from safetensors.numpy import load_file

    if (checkpoint / MODEL_FILE).is_file():
        policy.load_trained(load_file(checkpoint / MODEL_FILE))
    else:
        policy.load_checkpoint(checkpoint)


def _write_state(folder: Path, progress: Progress) -> None:
    text = json.dumps(asdict(progress), indent=2)
    (folder / PROGRESS_FILE).write_text(text, encoding="utf-8")


def _recorded_bests(checkpoints: Path) -> set[int]:
    """Returns the best steps recorded in all checkpoints: a resume may go back to any of them."""
    files = checkpoints.glob(f"step-*/{PROGRESS_FILE}")
    return {best[0] for file in files if (best := _recorded_best(file.parent)) is not None}


def _recorded_best(folder: Path) -> tuple[int, float] | None:
    """Returns the best step and its score from the counters in a folder, None if damaged."""
    try:
        stored = _read_state(folder)
        return int(stored["best_step"]), float(stored["best_score"])
    except (FileNotFoundError, KeyError, RecursionError, TypeError, ValueError):
        return None


def _best_fault(folder: Path, progress: Progress) -> str | None:
    """Returns why a folder does not contain the best step of `progress`, or None if it does."""
    fault = manifest_fault(folder, progress.best_step)
    # steps discarded by a resume may have had another best at the same step
    if fault is None and _recorded_best(folder) != (progress.best_step, progress.best_score):
        return "those of discarded steps of the run"
    return fault


def _read_state(folder: Path) -> dict[str, Any]:
    """Returns the counters of a checkpoint by their current names.

    Raises:
        ValueError: the file is damaged.
    """
    stored: object = json.loads((folder / PROGRESS_FILE).read_text(encoding="utf-8"))
    if not isinstance(stored, dict):
        raise ValueError(f"{PROGRESS_FILE}: expected an object, got {type(stored).__name__}")
    return {
        FORMER_NAMES.get(name, name): value
        for name, value in cast("dict[str, Any]", stored).items()
    }
