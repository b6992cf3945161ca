"""The path in the text that a terminal pastes when a file is dropped on it."""

import os
import shlex
from pathlib import Path
from urllib.parse import urlsplit

_IS_WINDOWS = os.name == "nt"


def pasted_path(text: str) -> str:
    """Returns the path in `text`, without quotes, backslashes and `file://`.

    A path that exists is returned unchanged. Of several dropped files the first counts.
    """
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not line or _exists(line):
        return line
    if line.startswith("file://"):
        return _file_of(line)
    try:
        words = shlex.split(line, posix=os.name != "nt")
    except ValueError:
        return line
    first = words[0].strip("\"'") if words else line
    return first if _exists(first) else line


def absolute_path(path: str) -> str:
    """Returns a path as an absolute one; the home of an unknown user stays as it is written."""
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError:
        return str(Path(path).absolute())


def is_file(path: str) -> bool:
    """Says whether a path names a file; one that cannot be a path names none."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long for a name, or with a null character
        return False


def _file_of(url: str) -> str:
    from urllib.request import url2pathname  # slow to import, and rarely needed

    parts = urlsplit(url)
    # Windows: a drive after a slash, or a host that shares folders
    share = f"//{parts.netloc}" if _IS_WINDOWS and parts.netloc not in {"", "localhost"} else ""
    return url2pathname(share + parts.path)


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, RuntimeError):  # too long for a name, or an unknown user's home
        return False
