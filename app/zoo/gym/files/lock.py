"""A file lock that the operating system releases when its holder dies, however it dies.

The worker of a run holds the run's lock for its whole lifetime; a process that changes the state of
a run without a worker holds it for that moment. So a run never has two writers, whatever the clock
or the process table say; nor has the log of a round.
"""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from zoo.gym.files.atomic import private
from zoo.gym.paths import storage_error

_POLL_S = 0.02


@contextmanager
def locked(path: Path, *, wait_s: float = 0.0) -> Generator[bool]:
    """Tries to hold a lock for the duration of a `with` block and yields whether it succeeded.

    Args:
        path: the lock file; created if missing and never deleted.
        wait_s: how long to wait for another holder.

    Raises:
        StorageError: the file cannot be created.
    """
    try:
        file = open(path, "ab", opener=private)  # noqa: SIM115
    except OSError as error:
        raise storage_error(error, path) from error
    with file:
        deadline = time.monotonic() + wait_s
        held = _take(file)
        while not held and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            held = _take(file)
        yield held  # closing the file releases the lock


def _take(file: IO[bytes]) -> bool:
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
