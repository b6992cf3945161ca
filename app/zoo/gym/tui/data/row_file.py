"""The lines of a large file, read one at a time: only the place of every so many is remembered.

Files of one JSON object per line have rows that can be shown before they are inspected. The others
(lists, tables, text, compressed files) are left to `zoo-gym data show`.
"""

import json
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

EVERY = 64
"""Each so many rows, the place of one is remembered."""

CHUNK_BYTES = 1 << 20
MOST_BYTES = 1 << 16
"""How much of a row is read to be shown."""


@dataclass
class RowFile:
    """A file of a JSON object per line; blank lines are no rows.

    Attributes:
        path: the file.
        places: the byte offset of each `EVERY`th row.
        count: the number of rows that were found so far.
    """

    path: Path
    places: "array[int]" = field(default_factory=lambda: array("Q"))
    count: int = 0

    def index(self, go_on: Callable[[], bool]) -> None:
        """Finds the rows; takes about a second for a million.

        Args:
            go_on: is asked now and then; the search ends once it says no.
        """
        with suppress(OSError), self.path.open("rb") as file:
            for start, _ in _rows(file, 0, go_on):
                if self.count % EVERY == 0:
                    self.places.append(start)
                self.count += 1

    def read(self, row: int) -> str:
        """Returns the text of a row, counted from 1; no more than `MOST_BYTES` of it."""
        if not 1 <= row <= self.count:
            return ""
        step, rest = divmod(row - 1, EVERY)
        with suppress(OSError), self.path.open("rb") as file:  # it may be gone by now
            rows = _rows(file, self.places[step], lambda: True)
            for _ in range(rest):
                next(rows, None)
            start, end = next(rows, (0, 0))
            file.seek(start)
            return file.read(min(end - start, MOST_BYTES)).decode("utf-8", "replace").strip()
        return ""

    def find(self, text: str, most: int, go_on: Callable[[], bool]) -> list[int]:
        """Returns the numbers of the first rows with a text, in any case."""
        wanted = {text.lower(), json.dumps(text.lower())[1:-1]}  # plain, and with \\u escapes
        matches: list[int] = []
        with suppress(OSError), self.path.open("rb") as file:
            for number, line in enumerate(_lines(file, go_on), 1):
                lower = line.decode("utf-8", "replace").lower()
                if any(each in lower for each in wanted):
                    matches.append(number)
                    if len(matches) == most:
                        break
        return matches


def open_rows(path: Path) -> RowFile | None:
    """Returns a file whose first line is a JSON object; None for another one."""
    try:
        with path.open("rb") as file:
            lines = iter(lambda: file.readline(CHUNK_BYTES), b"")
            line = next((line for line in lines if line.strip()), b"")
    except OSError:
        return None
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return RowFile(path) if isinstance(value, dict) else None


def _rows(file: BinaryIO, at: int, go_on: Callable[[], bool]) -> Iterator[tuple[int, int]]:
    """Yields where each row starts and ends, from an offset on; a line may be of any length."""
    file.seek(at)
    start, is_blank = at, True
    while chunk := file.read(CHUNK_BYTES):
        if not go_on():
            return
        after = at + len(chunk)  # the caller may move the file's position
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            if not (is_blank and (end == begin or chunk[begin:end].isspace())):
                yield start, at + end
            begin, start, is_blank = end + 1, at + end + 1, True
        is_blank = is_blank and not chunk[begin:].strip()
        at = after
        file.seek(at)
    if not is_blank:
        yield start, at


def _lines(file: BinaryIO, go_on: Callable[[], bool]) -> Iterator[bytes]:
    """Yields the rows; of long ones the beginning."""
    count = 0
    while line := file.readline(CHUNK_BYTES):
        if len(line) == CHUNK_BYTES:
            while (rest := file.readline(CHUNK_BYTES)) and not rest.endswith(b"\n"):
                pass
        if line.strip():
            yield line
        count += 1
        if count % 4096 == 0 and not go_on():
            return
