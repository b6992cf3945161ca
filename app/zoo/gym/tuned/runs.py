"""The trained model of a run, and the settings that it was trained with."""

from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.jobs import Run, Status, read_ended, reconcile
from zoo.gym.jobs.run import is_experience

if TYPE_CHECKING:
    from zoo.gym.config import TrainConfig

_COMPARED_BYTES = 64_000_000


def result_of(run: Run) -> Path:
    """Returns the folder of a run's trained model.

    Raises:
        InputError: the run has none yet, or learned lessons.
    """
    _refuse_lessons(run)
    if not run.result.is_dir():
        status = reconcile(run)
        raise InputError(
            f"run '{run.id}' has no result yet: expected a run that is done, got {status.state}",
            hint=f"zoo-gym runs {_way_to_a_result(run, status)}",
            code="tuned.no_result",
        )
    return run.result


def run_config(run: Run) -> "TrainConfig":
    """Returns the settings of a run that trained weights.

    Raises:
        InputError: it learned lessons, or its settings are damaged.
    """
    from zoo.gym.train.run_folder.settings import read_settings

    _refuse_lessons(run)
    return read_settings(run.config_file)


def trained_model(run: Run, model: str | None) -> str | None:
    """Returns the folder of a run's model: the copy in its `output_dir`, or else its own result.

    Args:
        run: the run.
        model: the folder that it reported at its end. A later run may have replaced the files in
            it: then the run's own result is the model.
    """
    if model is None or not run.result.is_dir() or Path(model) == run.result:
        return model
    files = (path for path in run.result.iterdir() if path.is_file())
    same = all(_is_same(path, Path(model) / path.name) for path in files)
    return model if same else str(run.result)


def _refuse_lessons(run: Run) -> None:
    if is_experience(run):
        raise InputError(
            f"run '{run.id}' learned lessons: expected a run that trained weights",
            hint="zoo-gym chat --model MODEL --experience NAME uses lessons",
            code="tuned.run_of_lessons",
        )


def _way_to_a_result(run: Run, status: Status) -> str:
    if status.state == "done":
        return f"show {run.id} shows more"
    if status.live:
        return f"tail {run.id} follows it until it is done"
    result = read_ended(run.folder).result
    return f"finish {run.id} makes one of {result}" if result else f"resume {run.id} trains it"


def _is_same(path: Path, copy: Path) -> bool:
    """Returns whether a file is a copy; of large ones, whether size and beginning are equal."""
    if not copy.is_file() or path.stat().st_size != copy.stat().st_size:
        return False
    with path.open("rb") as a, copy.open("rb") as b:
        return a.read(_COMPARED_BYTES) == b.read(_COMPARED_BYTES)
