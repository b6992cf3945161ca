"""Private files beside an output, and what a killed program left of them.

A private file names the process that writes it, by number and time of birth. Whoever makes the next
one in the same folder removes those whose process is gone.
"""

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

TOLERANCE_S = 2.0
"""How far the system's answers about one process's birth may lie apart: clocks are set."""

_PRIVATE = re.compile(r"\..+\.(?P<pid>\d+)-(?P<born_ms>\d+)-[0-9a-f]{8}\.tmp")


def private_path(path: Path) -> Path:
    """Returns a name beside `path` that nobody else uses, after removing what the dead left."""
    import psutil

    remove_leftovers(path.parent)
    born_ms = int(psutil.Process().create_time() * 1000)
    return path.parent / f".{path.name}.{os.getpid()}-{born_ms}-{secrets.token_hex(4)}.tmp"


def remove_leftovers(folder: Path) -> None:
    """Removes private files and folders in `folder` whose process no longer runs.

    What cannot be removed stays: it is in nobody's way.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            found = _PRIVATE.fullmatch(entry.name)
            if found and not _runs(int(found["pid"]), int(found["born_ms"]) / 1000):
                _remove(entry)


def _runs(pid: int, born: float) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:  # dead, and nobody has taken its exit code
            return False
        return abs(process.create_time() - born) <= TOLERANCE_S
    except psutil.AccessDenied:
        return True  # there is such a process, of somebody else
    except psutil.NoSuchProcess:
        return False


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
        return
    with suppress(OSError):
        entry.unlink()
