"""The operations on a disk that atomic writing needs: rename, remove, and wait for the disk.

Errors of the system become one sentence about the file. What needs which order of these operations
is in `atomic`.
"""

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from zoo.gym.paths import PRIVATE_FILE, PRIVATE_FOLDER, storage_error

_IS_WINDOWS = os.name == "nt"
_TRIES, _TRY_S = 50, 0.02


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Turns the system's answer to a failed write into one sentence about `path`.

    Raises:
        StorageError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def private(path: str, flags: int) -> int:
    """Opens a file that only its owner can read where it is made; an `opener` for `open`."""
    return os.open(path, flags, PRIVATE_FILE)


def move_over(source: Path, path: Path) -> None:
    """Renames a file over another one.

    Windows refuses while another process has it open, which a reader of ours has for a moment.

    Raises:
        OSError: the system refuses.
    """
    _patiently(lambda: source.replace(path))


def remove_file(path: Path) -> None:
    """Removes a file, if it is there, as `move_over` renames one.

    Raises:
        OSError: the system refuses.
    """
    _patiently(lambda: path.unlink(missing_ok=True))


def _patiently(act: Callable[[], object]) -> None:
    for _ in range(_TRIES if _IS_WINDOWS else 0):
        try:
            act()
        except PermissionError:
            time.sleep(_TRY_S)
        else:
            return
    act()


def settle_inside(folder: Path, *, keep_private: bool) -> None:
    """Waits until everything in a folder is on the disk.

    Args:
        folder: what to settle, whatever lies how deep in it.
        keep_private: also close all of it to others.
    """
    inside = sorted(folder.rglob("*"))
    for path in inside:
        if path.is_file():
            if keep_private:
                path.chmod(PRIVATE_FILE)
            sync_file(path)
    for path in (*(path for path in inside if path.is_dir()), folder):
        if keep_private:
            path.chmod(PRIVATE_FOLDER)
        sync_folder(path)


def sync_file(path: Path) -> None:
    """Waits until the bytes of a file are on the disk."""
    # Windows flushes only through a handle that may write
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        if sys.platform == "darwin":
            import fcntl

            # fsync on macOS stops at the drive's own cache
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        else:
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Waits until the names in a folder are on the disk; Windows has no such call."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
