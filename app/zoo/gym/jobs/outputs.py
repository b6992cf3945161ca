"""Copies of results: one live run per `output_dir`, and a copy that was replaced is noticed."""

from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.jobs.listing import list_runs
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import LIVE
from zoo.gym.paths import given_path

_COMPARED_BYTES = 64_000_000


def check_unclaimed(folder: Path) -> None:
    """Refuses an `output_dir` claimed by a live run; a run without a process claims none.

    Raises:
        InputError: another run will write there.
    """
    wanted = given_path(folder).resolve()
    for row in list_runs():
        if row.state in LIVE and _output_of(Run(Path(row.folder))) == wanted:
            raise InputError(
                f"output_dir: expected a folder that no other run uses, got '{folder}', "
                f"which run '{row.id}' will write",
                hint="choose another folder",
            )


def trained_model(run: Run, model: str | None) -> str | None:
    """Returns the folder of a run's model: the copy in its `output_dir`, or else its own result.

    Args:
        run: the run.
        model: the folder that it reported at its end. A later run may have replaced the files in
            it: then the run's own result is the model.
    """
    if model is None or not run.result.is_dir() or Path(model) == run.result:
        return model
    own = (path for path in run.result.iterdir() if path.is_file())
    same = all(_is_same(path, Path(model) / path.name) for path in own)
    return model if same else str(run.result)


def _is_same(path: Path, copy: Path) -> bool:
    """Returns whether a file is a copy; of large ones, whether size and beginning are equal."""
    if not copy.is_file() or path.stat().st_size != copy.stat().st_size:
        return False
    with path.open("rb") as a, copy.open("rb") as b:
        return a.read(_COMPARED_BYTES) == b.read(_COMPARED_BYTES)


def _output_of(run: Run) -> Path | None:
    from zoo.gym.train.result.output import output_folder
    from zoo.gym.train.run_folder.settings import settings_in

    try:
        config = settings_in(run.env_file)
    except InputError:
        return None  # damaged
    output = output_folder(config) if config is not None else None
    return output.resolve() if output is not None else None
