"""Names of temporary files beside an output, and the removal of those that a killed program left.

A private name has the id and the creation time of the process that writes it. Making the next one
in the same folder removes those whose process is gone.
"""

import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from zoo.gym.processes import Identity, is_alive, this_process

_PRIVATE = re.compile(r"\..+\.(?P<pid>\d+)-(?P<born_ms>\d+)-[0-9a-f]{8}\.tmp")


def private_path(path: Path) -> Path:
    """Returns a name beside `path` that nobody else uses, after removing what the dead left."""
    remove_leftovers(path.parent)
    writer = this_process()
    born_ms = int(writer.create_time * 1000)
    return path.parent / f".{path.name}.{writer.pid}-{born_ms}-{secrets.token_hex(4)}.tmp"


def remove_leftovers(folder: Path) -> None:
    """Removes private files and folders in `folder` whose process no longer runs.

    What cannot be removed stays: it is in nobody's way.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if _is_left_over(entry.name):
                _remove(entry)


def _is_left_over(name: str) -> bool:
    found = _PRIVATE.fullmatch(name)
    if found is None:
        return False
    return not is_alive(Identity(int(found["pid"]), int(found["born_ms"]) / 1000))


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
        return
    with suppress(OSError):
        entry.unlink()
