"""Sets the last rows aside, to measure on what was not learned."""

from collections.abc import Sequence
from dataclasses import replace

from zoo.gym.data.records import Record
from zoo.gym.errors import InputError

_Rows = tuple[Record, ...]


def split_records(records: Sequence[Record], val_size: float) -> tuple[_Rows, _Rows]:
    """Splits rows into those that are learned and those held out, in their order.

    A lone row of text is cut at the end of a line (or of a word) instead.

    Args:
        records: all rows.
        val_size: below 1 the share of rows to hold out, the last ones, at least one row; from 1
            on their number; 0 holds out none.

    Returns:
        The rows to learn and the rows held out. Fewer than two rows hold out nothing.

    Raises:
        InputError: `val_size` is negative, no whole number above 1, or leaves nothing to learn.
    """
    rows = tuple(records)
    if not val_size >= 0 or (val_size >= 1 and val_size != int(val_size)):
        raise InputError(
            f"val_size: expected a share from 0 to below 1 or a whole number of rows, "
            f"got {val_size!r}"
        )
    if 0 < val_size < 1 and len(rows) == 1 and rows[0].kind == "text":
        return _cut_text(rows[0], val_size)
    count = _held_out_count(len(rows), val_size)
    return rows[: len(rows) - count], rows[len(rows) - count :]


def _held_out_count(rows: int, val_size: float) -> int:
    if not val_size:
        return 0
    if val_size < 1:
        return min(max(1, round(rows * val_size)), max(rows - 1, 0))
    if val_size >= rows:
        raise InputError(f"val_size: expected fewer than the {rows} usable rows, got {val_size:g}")
    return int(val_size)


def _cut_text(record: Record, val_size: float) -> tuple[_Rows, _Rows]:
    text = record.text
    wanted = round(len(text) * (1 - val_size))
    at = text.rfind("\n", 0, wanted) + 1 or text.rfind(" ", 0, wanted) + 1
    if not text[:at].strip() or not text[at:].strip():
        return (record,), ()
    return (replace(record, text=text[:at]),), (replace(record, text=text[at:]),)
