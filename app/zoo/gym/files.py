"""Writing files so that a kill or a power cut leaves the old content or the new, never a mix."""

import os
import sys
from pathlib import Path


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
