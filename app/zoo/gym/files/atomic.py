"""Writes files and folders atomically: they appear complete or not at all.

Each is written under a temporary name in the same folder, synced to disk, and renamed. That name
contains the pid and creation time of its writer; creating the next one in the same folder removes
those whose process is gone.
"""

import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.paths import PRIVATE_FILE, PRIVATE_FOLDER, is_ours, make_folder, storage_error
from zoo.gym.processes import Identity, is_alive, this_process

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


_PRIVATE = re.compile(r"\..+\.(?P<pid>\d+)-(?P<born_ms>\d+)-[0-9a-f]{8}\.tmp")


def private_path(path: Path) -> Path:
    """Returns an unused name next to `path`, after removing leftovers of dead processes."""
    with suppress(OSError):  # what cannot be removed stays and does no harm
        for entry in leftovers(path.parent):
            _remove(entry)
    writer = this_process()
    born_ms = int(writer.create_time * 1000)
    return path.parent / f".{path.name}.{writer.pid}-{born_ms}-{secrets.token_hex(4)}.tmp"


def leftovers(folder: Path) -> list[Path]:
    """Returns the private files and folders in `folder` whose process no longer runs."""
    return [entry for entry in sorted(folder.iterdir()) if _is_left_over(entry.name)]


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
        raise InputError("output: expected the name of a file, got nothing", code="files.no_name")
    _refuse_link(path)
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        hint = "choose a file in it" if path.is_dir() else "choose a file that does not exist yet"
        raise InputError(
            f"output {str(path)!r}: expected a file or nothing, got {kind}",
            hint=hint,
            code="files.not_a_file",
        )


def check_new_folder(path: Path) -> None:
    """Refuses a path where a new folder would replace something.

    Raises:
        InputError: it is empty, or there is a link, a file or a folder with files.
    """
    hint = "choose a folder that does not exist yet"
    if not path.name:
        raise InputError(
            "output: expected the name of a folder, got nothing", hint=hint, code="files.no_name"
        )
    _refuse_link(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(
            f"output {str(path)!r}: expected no folder or an empty one",
            hint=hint,
            code="files.folder_not_empty",
        )


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
            code="files.not_a_folder",
        )


def _refuse_link(path: Path) -> None:
    # following it would write to an unexpected place, replacing it would not change its target
    if path.is_symlink():
        raise InputError(
            f"output {str(path)!r}: expected a file or folder, got a symbolic link",
            hint=f"use its target: {path.parent / path.readlink()}",
            code="files.symbolic_link",
        )


@contextmanager
def new_file(path: Path, *, replace: bool = True) -> Generator[Path]:
    """Yields a private path in the same folder, renamed to `path` if the block succeeds.

    Args:
        path: the file to create.
        replace: replace a file that is there at the end; otherwise it is refused.

    Raises:
        InputError: see `check_new_file`; or, without `replace`, the file appeared meanwhile.
        StorageError: the folder cannot be written.
    """
    check_new_file(path)
    temporary = private_path(path)
    with storage_errors(path):
        make_folder(path.parent)
    try:
        yield temporary
        if not replace and path.exists():
            raise InputError(
                f"output {str(path)!r}: expected nothing there, got a file of another program",
                hint="choose a file that does not exist yet",
                code="files.appeared",
            )
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
    if not path.exists():
        temporary.rename(path)
        return
    before = private_path(path)  # a folder cannot be renamed onto another
    path.rename(before)
    try:
        temporary.rename(path)
    except OSError:
        before.rename(path)
        raise
    shutil.rmtree(before, ignore_errors=True)


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
