"""Names of a user's choice for runs: a text file in the run folder, which itself never moves.

Results and settings name places inside a run folder, so a run that moved could not be resumed. The
id stays, and every command takes the name as well.
"""

import re

from zoo.gym.errors import InputError
from zoo.gym.files import remove_file, write_beside
from zoo.gym.jobs.run import Run, run_folders
from zoo.gym.paths import storage_error

_NAME = re.compile(r"[^\W\d_][\w.-]{0,63}")
_LIKE_AN_ID = re.compile(r"r?\d+|last")


def rename(run: Run, name: str) -> None:
    """Gives a run a name, or with its own id takes its name away.

    Raises:
        InputError: the name is taken, or is none: expected up to 64 letters, digits, dots, dashes
            and underscores, a letter first, and nothing that reads as an id.
        StorageError: the run folder cannot be written.
    """
    if name == run.id:
        try:
            remove_file(run.name_file)
        except OSError as error:
            raise storage_error(error, run.name_file) from error
        return
    if not _NAME.fullmatch(name) or _LIKE_AN_ID.fullmatch(name):
        raise InputError(
            f"run name {name!r}: expected up to 64 letters, digits, '.', '-' and '_', a letter "
            "first, and no id",
            hint=f"zoo-gym runs rename {run.id} my-first-run",
        )
    for other in run_folders():
        if other.id != run.id and other.name == name:
            raise InputError(
                f"run name '{name}': expected a free one, got that of run '{other.id}'",
                hint=f"zoo-gym runs rename {other.id} {other.id} takes it away from that run",
            )
    write_beside(run.name_file, f"{name}\n")
