"""Files and folders that appear whole or not at all, whatever ends the program.

Each is written beside its place under a private name, brought to the disk, and renamed. What a
killed program left of its private files goes when the next one is made there (`leftovers.py`).
"""

import errno
import os
import shutil
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from zoo.gym.errors import InputError
from zoo.gym.leftovers import private_path
from zoo.gym.paths import storage_error


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


def write_beside(path: Path, content: str, *, sync: bool = False) -> None:
    """Replaces `path` at once: writes a file beside it, then renames.

    Args:
        path: the file to replace or make; its folder exists.
        content: the whole text, stored as UTF-8.
        sync: also reach the disk before the rename, and the folder after it.

    Raises:
        OSError: the disk refused; `path` is as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(content, encoding="utf-8", newline="\n")
        if sync:
            sync_file(beside)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def open_regular(path: Path) -> IO[bytes]:
    """Opens a file of a run for reading, and nothing that only looks like one.

    A pipe in its place would hold its reader for ever.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.fdopen(handle, "rb")
    except OSError:
        os.close(handle)
        raise


def read_small(path: Path, *, most_bytes: int = 16_000_000) -> bytes:
    """Returns the content of a small regular file.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes} bytes", str(path))
    return content


@contextmanager
def new_file(path: Path) -> Generator[Path]:
    """Yields a private path in the same folder, renamed to `path` when the block ends well.

    Raises:
        StorageError: the folder cannot be written.
    """
    temporary = private_path(path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        with storage_errors(path):
            sync_file(temporary)
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Generator[Path]:
    """Yields a private folder beside `path`, renamed to `path` when the block ends well.

    Args:
        path: the folder to make.
        replace: a folder that stands there already gives way; otherwise it is refused.

    Raises:
        InputError: `path` exists, is not an empty folder, and is not to be replaced.
        StorageError: the folder cannot be written.
    """
    if not replace and path.exists() and not (path.is_dir() and not any(path.iterdir())):
        hint = "name a folder that does not exist yet"
        raise InputError(f"output {str(path)!r}: expected no folder or an empty one", hint=hint)
    temporary = private_path(path)
    with storage_errors(path):
        temporary.mkdir(parents=True)
    try:
        yield temporary
        with storage_errors(path):
            _settle(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _settle(temporary: Path, path: Path) -> None:
    for file in temporary.iterdir():
        sync_file(file)
    sync_folder(temporary)
    if path.exists():
        shutil.rmtree(path)  # a folder cannot be renamed onto another
    temporary.rename(path)
    sync_folder(path.parent)


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
