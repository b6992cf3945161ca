"""Measures what a program wrote to its temporary folder, and removes the folder.

Both work on whatever a hostile program leaves: deep folders, many of them, names as long as the
system allows, folders without permissions, links. Deleted files that the program still has open or
mapped are measured through `/proc`.
"""

import os
import secrets
import shutil
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

MOST_WRITTEN_BYTES = 64_000_000
"""What a program may write in all."""

MOST_FILE_BYTES = MOST_WRITTEN_BYTES // 4

MOST_FILES = 1000
"""Files, folders and links that a program may make."""

_TOO_LARGE = f"it wrote more than {MOST_WRITTEN_BYTES / 1e6:g} MB of files"
_TOO_MANY = f"it made more than {MOST_FILES} files and folders"


def excess(folder: Path, pid: int | None = None) -> str:
    """Returns which limit a program exceeds with what it wrote; empty if none.

    Args:
        folder: the folder that it writes to.
        pid: its process, whose deleted files count; None if it has ended.
    """
    size, entries, pending = 0, 0, [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                for entry in listing:
                    entries += 1
                    if entries > MOST_FILES:
                        return _TOO_MANY
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        size += _size(entry)
        except (FileNotFoundError, NotADirectoryError):  # it vanished meanwhile
            continue
        except OSError as error:  # it has no permissions, or its path is too long
            return f"it made a folder that cannot be read: {error.strerror}"
    if pid is not None and size <= MOST_WRITTEN_BYTES:
        size += _deleted_bytes(folder, pid)
    return _TOO_LARGE if size > MOST_WRITTEN_BYTES else ""


def _size(entry: "os.DirEntry[str]") -> int:
    with suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_size
    return 0


def is_observable(pid: int) -> bool:
    """Returns whether the deleted files of a process can be seen."""
    try:
        os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - a path of the system
        return os.access(f"/proc/{pid}/maps", os.R_OK)
    except OSError:
        return False


def _deleted_bytes(folder: Path, pid: int) -> int:
    """Returns the size of the deleted files that a process still has open or mapped."""
    sizes: dict[int, int] = {}
    with suppress(OSError):  # it ended meanwhile, or this system has no /proc
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with suppress(FileNotFoundError):
                status = Path(f"/proc/{pid}/fd/{name}").stat()
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                    sizes[status.st_ino] = status.st_size
        mappings = Path(f"/proc/{pid}/maps").read_bytes()
        if b"(deleted)" in mappings:
            for line in mappings.splitlines():
                mapping, _, inside = line.partition(os.fsencode(folder))
                if inside.endswith(b"(deleted)"):  # of an unknown size, so of the largest
                    sizes.setdefault(int(mapping.split()[4]), MOST_FILE_BYTES)
    return sum(sizes.values())


def remove(folder: Path) -> None:
    """Removes a folder that no process writes to any more; what cannot be removed stays."""
    if os.rename not in os.supports_dir_fd or os.scandir not in os.supports_fd:
        with suppress(RecursionError):
            shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()


def _empty(top: int) -> None:
    """Removes what is in an open folder.

    Each folder found is moved up into it first, so that no path becomes long.
    """
    prefix, numbers, pending = secrets.token_hex(8), count(), ["."]
    while pending:
        name = pending.pop()
        with suppress(OSError):
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                with os.scandir(descriptor) as listing:
                    entries = [
                        (inner.name, inner.is_dir(follow_symlinks=False)) for inner in listing
                    ]
                for entry, is_folder in entries:
                    new = f"{prefix}-{next(numbers)}" if is_folder else None
                    if _take(entry, descriptor, new, top) and new:
                        pending.append(new)
            finally:
                os.close(descriptor)
            if name != ".":
                os.rmdir(name, dir_fd=top)


def _take(name: str, folder: int, new: str | None, top: int) -> bool:
    """Deletes a file, or moves a folder up under a new name; returns whether that worked."""
    try:
        if new is None:
            os.unlink(name, dir_fd=folder)
        else:
            os.chmod(name, 0o700, dir_fd=folder)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return False
    return True
