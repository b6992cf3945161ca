"""Copies of results: one live run per `output_dir`."""

from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.jobs.listing import list_runs
from zoo.gym.jobs.run import Run
from zoo.gym.jobs.state import LIVE
from zoo.gym.paths import given_path


def check_unclaimed(folder: Path) -> None:
    """Refuses an `output_dir` claimed by a live run; a run without a process claims none.

    Raises:
        InputError: another run will write there.
    """
    target = given_path(folder).resolve()
    for row in list_runs():
        if row.state in LIVE and _output_of(Run(Path(row.folder))) == target:
            raise InputError(
                f"output_dir: expected a folder that no other run uses, got '{folder}', "
                f"which run '{row.id}' will write",
                hint="choose another folder",
                code="jobs.output_taken",
            )


def _output_of(run: Run) -> Path | None:
    from zoo.gym.train.result.output import output_folder
    from zoo.gym.train.run_folder.settings import settings_in

    try:
        config = settings_in(run.env_file)
    except InputError:
        return None  # damaged
    output = output_folder(config) if config is not None else None
    return output.resolve() if output is not None else None
