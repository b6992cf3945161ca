"""The operations on a disk that atomic writing needs: rename, remove and sync.

System errors become one message about the file. The order of the operations is in `atomic`.
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
    """Turns an OSError into a StorageError about writing `path`.

    Raises:
        StorageError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


@contextmanager
def read_errors(path: Path) -> Generator[None]:
    """Turns an OSError into a StorageError about reading `path`.

    Raises:
        StorageError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, verb="read") from error


def private(path: str, flags: int) -> int:
    """Opens a file, creating it readable only by its owner; an `opener` for `open`."""
    return os.open(path, flags, PRIVATE_FILE)


def move_over(source: Path, path: Path) -> None:
    """Renames a file over another one.

    Windows refuses while another process has it open, as our readers do for a moment.

    Raises:
        OSError: the system refuses.
    """
    _patiently(lambda: source.replace(path))


def remove_file(path: Path) -> None:
    """Removes a file if it exists, with the same retries as `move_over`.

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
    """Syncs everything in a folder to disk.

    Args:
        folder: the folder, with everything in it at any depth.
        keep_private: also remove the permissions of other users.
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
    """Syncs the content of a file to disk."""
    # Windows flushes only through a writable handle
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        if sys.platform == "darwin":
            import fcntl

            # fsync on macOS does not flush the drive's own cache
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        else:
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Syncs the entries of a folder to disk; Windows has no such call."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
