"""How far a run has come: what a checkpoint holds besides the policy, and how it is saved."""

import json
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.paths import storage_error
from zoo.gym.train.checkpoint import checkpoint_to_resume, folder_name, write_checkpoint

if TYPE_CHECKING:
    from zoo.backends.base import Policy

STATE_FILE = "progress.json"
BEST_FOLDER = "best"
BEST_FILE = "trained.safetensors"


@dataclass
class Progress:
    """Counters that go on after a resume.

    Attributes:
        step: optimizer steps done.
        tokens: learned tokens so far.
        best_step: the step with the lowest held-out loss, 0 before the first evaluation.
        best_loss: that loss, nats per token.
        base_loss: the held-out loss before step 1.
        training_s: seconds spent in steps, on the wall.
        evaluation_s: seconds spent in evaluations, on the wall.
        training_cpu_s: processor seconds spent in steps, over all threads.
    """

    step: int = 0
    tokens: int = 0
    best_step: int = 0
    best_loss: float | None = None
    base_loss: float | None = None
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


def save(policy: "Policy", progress: Progress, checkpoints: Path) -> Path:
    """Writes policy, optimizer and counters as one checkpoint."""

    def write(folder: Path) -> None:
        with full_disk_told(folder):
            policy.save_checkpoint(folder)
        text = json.dumps(asdict(progress), indent=2)
        (folder / STATE_FILE).write_text(text, encoding="utf-8")

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


def restore(policy: "Policy", checkpoints: Path) -> tuple[Progress, tuple[str, ...]]:
    """Loads the newest whole checkpoint into `policy`; a fresh `Progress` if there is none.

    Returns:
        The counters, and a sentence for each damaged checkpoint that was passed over.

    Raises:
        InputError: there are checkpoints, and all of them are damaged.
    """
    found = checkpoint_to_resume(checkpoints)
    if found.folder is None:
        return Progress(), ()
    policy.load_checkpoint(found.folder)
    stored = json.loads((found.folder / STATE_FILE).read_text(encoding="utf-8"))
    progress = Progress(**stored)
    if not best_folder(checkpoints, progress.best_step).is_dir():
        # Later bests of a course that a kill cut off have pushed it out: the next one counts.
        progress.best_step, progress.best_loss = 0, None
    return progress, found.warnings


def save_best(policy: "Policy", step: int, checkpoints: Path) -> None:
    """Keeps the trained values of the best step so far."""

    def write(folder: Path) -> None:
        from safetensors.numpy import save_file

        with full_disk_told(folder):
            save_file(dict(policy.trained()), folder / BEST_FILE)

    write_checkpoint(checkpoints / BEST_FOLDER, step, write, keep=2)


def best_folder(checkpoints: Path, step: int) -> Path:
    """Returns where `save_best` keeps the values of a step."""
    return checkpoints / BEST_FOLDER / folder_name(step)


def load_best(policy: "Policy", step: int, checkpoints: Path) -> None:
    """Puts the values of the best step into `policy`; step 0 (none was kept) leaves the last's."""
    from safetensors.numpy import load_file

    if step:
        policy.load_trained(load_file(best_folder(checkpoints, step) / BEST_FILE))
