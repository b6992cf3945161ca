"""Paths that no file can have: too long ones, and those with characters that no system takes."""

import errno
import os
from pathlib import Path

from zoo.core.errors import InputError


def require_possible(path: str | os.PathLike[str]) -> None:
    """Checks that this system could have a file of that path; nothing needs to be there.

    Raises:
        InputError: it is too long, or contains a zero byte or an unpaired surrogate.
    """
    text = os.fspath(path)
    try:
        os.stat(text)  # noqa: PTH116 - a Path would be made of a name that may be none
    except ValueError:
        got = "a zero byte" if "\0" in text else "an unpaired surrogate"
        raise InputError(
            f"{text[:60]!a}: expected a path, got text with {got}", code="core.impossible_path"
        ) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise too_long(text) from None


def too_long(text: str) -> InputError:
    """Returns the error for a path, or a name in it, that is too long for this system."""
    start = text if len(text) <= 60 else f"{text[:57]}..."
    size = max(len(os.fsencode(name)) for name in (*Path(text).parts, ""))
    what = "names of at most 255 bytes in a path, got one"
    if size <= 255:
        size, what = len(os.fsencode(text)), "a path of at most 4,095 bytes, got one"
    return InputError(
        f"{start}: too long for a path: expected {what} of {size:,}", code="core.path_too_long"
    )
