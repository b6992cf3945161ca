"""Reads parquet files, as hubs store them, with pyarrow (the extra `parquet`).

A column exists for all rows of a file, so a null stands for a key that a row does not have, also
inside turns; so does NaN, as pandas writes a missing number. Rows are numbered from 1. They are
read in batches: a file need not fit into memory.
"""

import math
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import InputError, NotAvailableError

SUFFIX = ".parquet"
MAGIC = b"PAR1"

_ROWS = 256
"""Rows of a batch: rows of chats have some kilobytes each."""


def check_parquet(path: Path) -> None:
    """Refuses a file that is not parquet, or cannot be read here.

    Raises:
        NotAvailableError: pyarrow is not installed.
        InputError: the file is damaged, cut off, has no rows, or has a column twice.
    """
    if find_spec("pyarrow") is None:
        raise NotAvailableError(
            f"{path}: parquet needs the package pyarrow, which is not installed",
            hint=install_command("parquet"),
            code="data.missing_package",
        )
    import pyarrow.parquet as pq

    with _damage_refused(path), pq.ParquetFile(path) as file:
        rows, columns = file.metadata.num_rows, list(file.schema_arrow)
    _refuse_duplicates(path, columns)
    if not rows:
        raise InputError(
            f"{path}: empty file: expected rows of data, got none", code="data.empty_file"
        )


def _refuse_duplicates(path: Path, fields: Sequence[Any], within: str = "") -> None:
    """Refuses columns or fields of one name: a row would have only the last of them."""
    names = Counter(field.name for field in fields)
    if twice := [name for name, count in names.items() if count > 1]:
        where = f" in {within!r}" if within else ""
        raise InputError(
            f"{path}: duplicate column {twice[0][:60]!r}{where}: expected it once",
            code="data.duplicate_key",
        )
    for field in fields:
        _refuse_duplicates(path, _fields_of(field.type), within or field.name)


def _fields_of(kind: Any) -> list[Any]:  # noqa: ANN401 - a type of pyarrow
    """Returns the fields inside a struct, a map or a list; none of other types."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_struct(kind):
        return [kind.field(index) for index in range(kind.num_fields)]
    return [kind.value_field] if hasattr(kind, "value_field") else []


def read_parquet(path: Path) -> Iterator[tuple[int, object]]:
    """Yields the rows of a parquet file in order, each with its number from 1.

    Raises:
        InputError: the file is damaged.
    """
    import pyarrow.parquet as pq

    with _damage_refused(path), pq.ParquetFile(path) as file:
        batches = file.iter_batches(batch_size=_ROWS, use_threads=False)
        rows = (value for batch in batches for value in batch.to_pylist())
        for line, value in enumerate(rows, 1):
            yield line, _without_nulls(value)


@contextmanager
def _damage_refused(path: Path) -> Generator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{path}: not a complete parquet file: {reason[:1].lower()}{reason[1:]}",
            hint="copy or download the file again",
            code="data.damaged_file",
        ) from None


def _without_nulls(value: object) -> object:
    """Returns a value without missing fields; pandas writes NaN for a missing number."""
    if isinstance(value, dict):
        return {
            key: _without_nulls(part)
            for key, part in cast("dict[str, object]", value).items()
            if not (part is None or (isinstance(part, float) and math.isnan(part)))
        }
    if isinstance(value, list):
        return [_without_nulls(part) for part in cast("list[object]", value)]
    return value
