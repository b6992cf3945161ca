"""Writes files and folders atomically: they appear complete or not at all.

Each is written under a private name in the same folder, synced to disk, and renamed. Leftovers of
killed programs are removed when the next one is created there (`private_names`).
"""

import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.files.disk import (
    move_over,
    private,
    settle_inside,
    storage_errors,
    sync_file,
    sync_folder,
)
from zoo.gym.files.private_names import private_path
from zoo.gym.paths import PRIVATE_FILE, is_ours, make_folder


def write_beside(path: Path, content: str, *, sync: bool = False) -> None:
    """Replaces `path` atomically: writes a temporary file next to it, then renames it.

    Args:
        path: the file to replace or create, readable only by its owner; its folder exists.
        content: the complete text, stored as UTF-8.
        sync: also sync the file before the rename, and the folder after it.

    Raises:
        StorageError: writing failed; `path` is unchanged.
    """
    beside = private_path(path)
    # errors of write, flush and fsync have no file name
    with storage_errors(path):
        try:
            with open(beside, "w", encoding="utf-8", newline="\n", opener=private) as file:
                file.write(content)
            if sync:
                sync_file(beside)
            move_over(beside, path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        if sync:
            sync_folder(path.parent)


def check_new_file(path: Path) -> None:
    """Refuses a path that must not be replaced by a file.

    Raises:
        InputError: it is empty, or there is a link, a folder or a device.
    """
    if not path.name:
        raise InputError("output: expected the name of a file, got nothing")
    _refuse_link(path)
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        hint = "choose a file in it" if path.is_dir() else "choose a file that does not exist yet"
        raise InputError(f"output {str(path)!r}: expected a file or nothing, got {kind}", hint=hint)


def check_new_folder(path: Path) -> None:
    """Refuses a path where a new folder would replace something.

    Raises:
        InputError: it is empty, or there is a link, a file or a folder with files.
    """
    hint = "choose a folder that does not exist yet"
    if not path.name:
        raise InputError("output: expected the name of a folder, got nothing", hint=hint)
    _refuse_link(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"output {str(path)!r}: expected no folder or an empty one", hint=hint)


def check_replaceable_folder(path: Path) -> None:
    """Refuses a path where a folder of ours cannot be replaced.

    Raises:
        InputError: there is something other than a folder: a link, even to one, or a file.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        kind = "a symbolic link" if path.is_symlink() else "not a folder"
        raise InputError(
            f"'{path}': expected a folder or nothing, got {kind}",
            hint=f"move it away: a new folder is made at '{path}'",
        )


def _refuse_link(path: Path) -> None:
    # following it would write to an unexpected place, replacing it would not change its target
    if path.is_symlink():
        raise InputError(
            f"output {str(path)!r}: expected a file or folder, got a symbolic link",
            hint=f"use its target: {path.parent / path.readlink()}",
        )


@contextmanager
def new_file(path: Path) -> Generator[Path]:
    """Yields a private path in the same folder, renamed to `path` if the block succeeds.

    Raises:
        InputError: see `check_new_file`.
        StorageError: the folder cannot be written.
    """
    check_new_file(path)
    temporary = private_path(path)
    with storage_errors(path):
        make_folder(path.parent)
    try:
        yield temporary
        with storage_errors(path):
            if is_ours(path):
                temporary.chmod(PRIVATE_FILE)
            sync_file(temporary)
            move_over(temporary, path)
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Generator[Path]:
    """Yields a private folder next to `path`, renamed to `path` if the block succeeds.

    Args:
        path: the folder to create.
        replace: replace an existing folder; otherwise it is refused.

    Raises:
        InputError: at the start or end of the block `path` exists and is not an empty folder (with
            `replace`: not a folder).
        StorageError: the folder cannot be written.
    """
    (check_replaceable_folder if replace else check_new_folder)(path)
    temporary = private_path(path)
    with storage_errors(path):
        make_folder(temporary)
    try:
        yield temporary
        with storage_errors(path):
            settle_inside(temporary, keep_private=is_ours(path))
            (_replace_folder if replace else _place_folder)(temporary, path)
            sync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(temporary: Path, path: Path) -> None:
    check_replaceable_folder(path)
    if path.exists():
        shutil.rmtree(path)  # a folder cannot be renamed onto another
    temporary.rename(path)


def _place_folder(temporary: Path, path: Path) -> None:
    """Renames a folder to a path that is free or an empty folder, whose mode is kept."""
    try:
        with suppress(FileNotFoundError):
            if not is_ours(path):
                shutil.copymode(path, temporary, follow_symlinks=False)
            path.rmdir()  # fails if something was put there meanwhile
        temporary.rename(path)
    except OSError:
        check_new_folder(path)
        raise
