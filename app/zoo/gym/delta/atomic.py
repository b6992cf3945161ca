"""Files and folders that appear whole or not at all.

Both are written beside their place under a private name, fsynced, and renamed.
"""

import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from zoo.gym.errors import InputError, StorageError


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Turns the system's answer to a failed write into one sentence about `path`.

    Raises:
        StorageError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "choose a folder with free space that you may write to"
        raise StorageError(f"cannot write {str(path)!r}: {reason}", hint=hint) from error


@contextmanager
def new_file(path: Path) -> Generator[Path]:
    """Yields a private path in the same folder, renamed to `path` when the block ends well.

    Raises:
        StorageError: the folder cannot be written.
    """
    temporary = _beside(path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        with storage_errors(path):
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """Yields a private folder beside `path`, renamed to `path` when the block ends well.

    Raises:
        InputError: `path` exists and is not an empty folder.
        StorageError: the folder cannot be written.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        hint = "name a folder that does not exist yet"
        raise InputError(f"output {str(path)!r}: expected no folder or an empty one", hint=hint)
    temporary = _beside(path)
    with storage_errors(path):
        temporary.mkdir(parents=True)
    try:
        yield temporary
        with storage_errors(path):
            _settle(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync(path: Path) -> None:
    """Flushes a file, or a folder's entries where the system can, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folder
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _beside(path: Path) -> Path:
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"


def _settle(temporary: Path, path: Path) -> None:
    for file in temporary.iterdir():
        sync(file)
    sync(temporary)
    if path.exists():
        path.rmdir()  # empty: checked before; rename over a folder fails on Windows
    temporary.rename(path)
    sync(path.parent)
