"""Reads parquet files, as hubs store them, with pyarrow (the extra `parquet`).

A column exists for all rows of a file, so a null stands for a key that a row does not have, also
inside turns. Rows are numbered from 1. They are read in batches: a file need not fit into memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import InputError, NotAvailableError

if TYPE_CHECKING:
    from collections.abc import Generator

SUFFIX = ".parquet"
MAGIC = b"PAR1"

_ROWS = 256
"""Rows of a batch: rows of chats have some kilobytes each."""


def check_parquet(path: Path) -> None:
    """Refuses a file that is not parquet, or cannot be read here.

    Raises:
        NotAvailableError: pyarrow is not installed.
        InputError: the file is damaged, cut off, or has no rows.
    """
    if find_spec("pyarrow") is None:
        raise NotAvailableError(
            f"{path}: parquet needs the package pyarrow, which is not installed",
            hint=install_command("parquet"),
        )
    import pyarrow.parquet as pq

    with _damage_refused(path), pq.ParquetFile(path) as file:
        rows = file.metadata.num_rows
    if not rows:
        raise InputError(f"{path}: empty file: expected rows of data, got none")


def read_parquet(path: Path) -> Iterator[tuple[int, object]]:
    """Yields the rows of a parquet file in order, each with its number from 1.

    Raises:
        InputError: the file is damaged.
    """
    import pyarrow.parquet as pq

    line = 0
    with _damage_refused(path), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROWS, use_threads=False):
            for value in batch.to_pylist():
                line += 1
                yield line, _without_nulls(value)


@contextmanager
def _damage_refused(path: Path) -> "Generator[None]":
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{path}: not a complete parquet file: {reason[:1].lower()}{reason[1:]}",
            hint="copy or download the file again",
        ) from None


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {key: _without_nulls(item) for key, item in fields.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[object]", value)]
    return value
