"""What a place for the files of a round can do."""

import re
from typing import Protocol

from zoo.gym.errors import InputError, StorageError

MOST_BYTES = 16 << 20
"""The most bytes of one file: chunks have 4 MiB, all else is smaller."""

_PART = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_LONGEST = 200


class NoFileError(StorageError):
    """A name has what no file of a round is: a folder, a pipe, a loop of links, too many bytes.

    Whoever may write in a round can put it there, so it says nothing of the storage.
    """


class Storage(Protocol):
    """Named bytes. Names are relative, with parts as in `check_name`."""

    address: str
    """For messages: where this is."""

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a name, None where there are none.

        Raises:
            NoFileError: it is no file, or has more than `MOST_BYTES`.
            StorageError: they cannot be read.
        """
        ...

    def write(self, name: str, content: bytes) -> None:
        """Stores bytes under a new name, durably; the same bytes again are accepted.

        Raises:
            StorageError: they cannot be stored, or others are there.
        """
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Stores a pointer durably: a name whose bytes may change.

        Raises:
            StorageError: it cannot be stored; the old bytes are still there.
        """
        ...

    def size(self, name: str) -> int | None:
        """Returns the number of bytes of a name, None where there is no file."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Returns the names below a folder of names, sorted."""
        ...


def check_name(name: str) -> str:
    """Returns a name that is safe as a path on every system.

    Raises:
        InputError: a part is empty, starts with a dot, or has another character than lowercase
            letters, digits, `.`, `_` and `-`.
    """
    parts = name.split("/")
    if len(name) > _LONGEST or not all(_PART.fullmatch(part) for part in parts):
        raise InputError(
            f"name {name[:60]!r}: expected parts of lowercase letters, digits, '.', '_' and '-'"
        )
    return name
