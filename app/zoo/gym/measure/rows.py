"""Which rows are measured where there are more than are needed."""

from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row")


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Returns `count` rows evenly spaced over `rows`: a fixed subset."""
    count = min(count, len(rows))
    return [rows[index * len(rows) // count] for index in range(count)]
