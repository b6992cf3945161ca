"""Names of temporary files next to an output, and the removal of those left by killed programs.

A private name contains the pid and creation time of its writer. Creating the next one in the same
folder removes those whose process is gone.
"""

import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from zoo.gym.processes import Identity, is_alive, this_process

_PRIVATE = re.compile(r"\..+\.(?P<pid>\d+)-(?P<born_ms>\d+)-[0-9a-f]{8}\.tmp")


def private_path(path: Path) -> Path:
    """Returns an unused name next to `path`, after removing leftovers of dead processes."""
    remove_leftovers(path.parent)
    writer = this_process()
    born_ms = int(writer.create_time * 1000)
    return path.parent / f".{path.name}.{writer.pid}-{born_ms}-{secrets.token_hex(4)}.tmp"


def remove_leftovers(folder: Path) -> None:
    """Removes private files and folders in `folder` whose process no longer runs.

    Whatever cannot be removed stays and does no harm.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if _is_left_over(entry.name):
                _remove(entry)


def _is_left_over(name: str) -> bool:
    match = _PRIVATE.fullmatch(name)
    if match is None:
        return False
    return not is_alive(Identity(int(match["pid"]), int(match["born_ms"]) / 1000))


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
        return
    with suppress(OSError):
        entry.unlink()
