"""Files that are opened once: what is checked is what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.core import _core

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np
    from numpy.typing import NDArray


class OpenFile:
    """A regular file, for `read_header`, `read_delta`, `file_digest` and for its bytes.

    Whatever comes to stand at its path later is another file. Its bytes are read, not mapped: one
    that becomes shorter meanwhile is an error, where a mapped one ends the process. Several threads
    may read at once.

    Args:
        path: the file.

    Raises:
        InputError: a folder, a pipe or a device.
        OSError: what the file system answers.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.core = _core.OpenFile(path)

    def length(self) -> int:
        """Returns how many bytes it has now."""
        return self.core.length()

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Returns the bytes from one place to another, which the file was found to have.

        Raises:
            InputError: the file has become shorter.
            OSError: what the file system answers.
        """
        import numpy as np

        room = np.empty(stop - start, np.uint8)
        self.core.read_at(room, start)
        return room


def lent(file: str | PathLike[str] | OpenFile) -> str | PathLike[str] | _core.OpenFile:
    """Returns what the core takes for a file: the open one, or a path."""
    return file.core if isinstance(file, OpenFile) else file
