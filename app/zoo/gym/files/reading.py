"""Reads small regular files of a run or a cache."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import IO, cast


def open_regular(path: Path) -> IO[bytes]:
    """Opens a regular file for reading and refuses anything else.

    A pipe in its place would block the reader forever.

    Raises:
        OSError: it cannot be read, or is not a regular file.
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
        OSError: it cannot be read, is not a regular file, or is larger.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes} bytes", str(path))
    return content


def read_json_object(path: Path) -> dict[str, object] | None:
    """Returns the JSON object in a small file, or None where there is none that can be read."""
    try:
        return json_object(read_small(path))
    except (OSError, ValueError):  # a path with a zero byte is a ValueError
        return None


def json_object(content: bytes) -> dict[str, object] | None:
    """Returns the JSON object that bytes are, None if they are none."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
