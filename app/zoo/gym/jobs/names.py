"""User-defined names of runs: a text file in the run folder, which itself never moves.

Results and settings contain paths inside the run folder, so a run that moved could not be resumed.
The id stays, and every command accepts the name as well.
"""

import re

from zoo.gym.errors import InputError
from zoo.gym.files import remove_file, write_beside
from zoo.gym.jobs.run import Run, run_folders
from zoo.gym.paths import storage_error

_NAME = re.compile(r"[^\W\d_][\w.-]{0,63}")
_LIKE_AN_ID = re.compile(r"r?\d+|last")


def rename(run: Run, name: str) -> None:
    """Gives a run a name, or removes the name if it is the run's own id.

    Raises:
        InputError: see `check_name`.
        StorageError: the run folder cannot be written.
    """
    check_name(run, name)
    if name == run.id:
        try:
            remove_file(run.name_file)
        except OSError as error:
            raise storage_error(error, run.name_file) from error
        return
    write_beside(run.name_file, f"{name}\n")


def check_name(run: Run, name: str) -> None:
    """Refuses what cannot be the name of a run; its own id stands for none.

    Raises:
        InputError: the name is taken or invalid: it must have up to 64 letters, digits, dots,
            dashes and underscores, start with a letter, and not look like an id.
    """
    if name == run.id:
        return
    if not _NAME.fullmatch(name) or _LIKE_AN_ID.fullmatch(name):
        raise InputError(
            f"run name {name!r}: expected up to 64 letters, digits, '.', '-' and '_', starting "
            "with a letter, and neither an id nor 'last'",
            hint=f"zoo-gym runs rename {run.id} my-first-run",
            code="jobs.bad_name",
        )
    for other in run_folders():
        if other.id != run.id and other.name == name:
            raise InputError(
                f"run name '{name}': expected an unused one, got that of run '{other.id}'",
                hint=f"remove it from that run: zoo-gym runs rename {other.id} {other.id}",
                code="jobs.name_taken",
            )
