"""Opens data files, compressed with gzip or not, and reads them by lines or whole.

Compression is recognised by the first bytes, whatever the name. A damaged or incomplete file is
refused: the rows before the damage are no sample that anyone chose.
"""

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from zoo.gym.errors import InputError

BOM = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"
COMPRESSED = ".gz"

MOST_ROW_BYTES = 1 << 28
"""The longest line that is read: a small compressed file may expand to a line without an end."""


def data_suffix(path: Path) -> str:
    """Returns the suffix that names the format, without that of the compression: `.jsonl`."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == COMPRESSED else suffix


def open_data(path: Path) -> IO[bytes]:
    """Opens a data file to read its bytes, decompressed."""
    with path.open("rb") as file:
        compressed = file.read(len(GZIP)) == GZIP
    return cast("IO[bytes]", gzip.open(path)) if compressed else path.open("rb")


@contextmanager
def damage_refused(where: str) -> Generator[None]:
    """Turns errors of decompression into a refusal.

    Args:
        where: the file, and the line if it is known.

    Raises:
        InputError: the file is damaged or incomplete.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = str(error)
        problem = f"damaged gzip file: {reason[:1].lower()}{reason[1:]}"
        if isinstance(error, EOFError):
            problem = "incomplete gzip file: expected more data, got the end of the file"
        raise InputError(
            f"{where}: {problem}", hint="copy or download the file again", code="data.damaged_file"
        ) from None


def read_head(path: Path, count: int) -> bytes:
    """Returns the first bytes of a data file, at most `count`; -1 reads the whole file.

    Raises:
        InputError: the file is damaged.
    """
    with open_data(path) as file, damage_refused(str(path)):
        return file.read(count)


def read_bytes(path: Path) -> bytes:
    """Returns a whole data file, without a byte order mark.

    Raises:
        InputError: the file is damaged.
    """
    return read_head(path, -1).removeprefix(BOM)


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a data file with their numbers from 1, without a byte order mark.

    Raises:
        InputError: the file is damaged, or a line is too long to be a row.
    """
    with open_data(path) as file:
        number = 0
        while True:
            number += 1
            with damage_refused(f"{path}:{number}"):
                line = file.readline(MOST_ROW_BYTES)
            if not line:
                return
            if len(line) == MOST_ROW_BYTES:
                raise InputError(
                    f"{path}:{number}: expected a line of less than {MOST_ROW_BYTES >> 20} MiB, "
                    "got a longer one",
                    code="data.long_line",
                )
            yield number, line.removeprefix(BOM) if number == 1 else line
