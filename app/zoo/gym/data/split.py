"""Sets rows aside, to measure on what was not learned.

Chats and pairs are drawn by a seeded shuffle, because files are sorted more often than not; texts
are cut at their end, because a text goes on from one row to the next. Rows that say
the same, and chats that go on from one another, stay on one side.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.gym.data.equality import count_equal, related_rows
from zoo.gym.data.records import Record
from zoo.gym.errors import InputError

_Rows = tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Which rows are learned and which are held out, in numbers that a run can store.

    Attributes:
        rows: of all data.
        held_out: the places of the rows held out, in rising order.
        cut: characters of a lone text that are learned; the rest of it is held out. None where
            no row is cut.
        duplicates: rows that say the same as an earlier one.
    """

    rows: int
    held_out: tuple[int, ...]
    cut: int | None = None
    duplicates: int = 0

    def apply(self, records: Sequence[Record]) -> tuple[_Rows, _Rows]:
        """Returns the rows to learn and the rows held out, each in their order.

        Raises:
            InputError: these are other rows than the split was made for.
        """
        if len(records) != self.rows:
            raise InputError(
                f"dataset: expected the {self.rows} rows that were split, got {len(records)}"
            )
        if self.cut is not None:
            text = records[0].text
            parts = (
                replace(records[0], text=part) for part in (text[: self.cut], text[self.cut :])
            )
            learned, kept = parts
            return (learned,), (kept,)
        apart = set(self.held_out)
        learned_rows = tuple(row for place, row in enumerate(records) if place not in apart)
        return learned_rows, tuple(records[place] for place in self.held_out)


def split_records(records: Sequence[Record], val_size: float, seed: int) -> Split:
    """Splits rows into those that are learned and those held out.

    A lone row of text is cut at the end of a line (or of a word) instead.

    Args:
        records: all rows.
        val_size: below 1 the share of rows to hold out, at least one row; from 1 on their number;
            0 holds out none. Chats and pairs give their share, texts theirs. Fewer rows are held
            out where equal ones, which stay together, are too many for the room that is left.
        seed: of the shuffle.

    Raises:
        InputError: `val_size` is negative, no whole number above 1, or leaves nothing to learn.
    """
    rows = tuple(records)
    _check_size(val_size)
    if 0 < val_size < 1 and len(rows) == 1 and rows[0].kind == "text":
        cut = _text_cut(rows[0].text, val_size)
        return Split(1, () if cut is None else (0,), cut)
    groups = related_rows(rows)
    count = _held_out_count(len(rows), val_size)
    texts = [group for group in groups if rows[group[0]].kind == "text"]
    others = [group for group in groups if rows[group[0]].kind != "text"]
    texts.sort(key=lambda group: -group[-1])
    _shuffle(others, seed)
    of_texts = round(count * sum(map(len, texts)) / max(1, len(rows)))
    chosen = [*_take(texts, of_texts), *_take(others, count - of_texts)]
    if not chosen and count and len(groups) > 1:
        chosen = [min(others or texts, key=len)]
    held_out = tuple(sorted(place for group in chosen for place in group))
    return Split(len(rows), held_out, duplicates=count_equal(rows))


def split_at_end(records: Sequence[Record], val_size: float) -> Split:
    """Holds out the last rows, as runs did before they stored their split."""
    rows = tuple(records)
    _check_size(val_size)
    if 0 < val_size < 1 and len(rows) == 1 and rows[0].kind == "text":
        return split_records(rows, val_size, 0)
    count = _held_out_count(len(rows), val_size)
    return Split(len(rows), tuple(range(len(rows) - count, len(rows))))


def _check_size(val_size: float) -> None:
    if not val_size >= 0 or (val_size >= 1 and val_size != int(val_size)):
        raise InputError(
            f"val_size: expected a share from 0 to below 1 or a whole number of rows, "
            f"got {val_size!r}"
        )


def _shuffle(groups: list[list[int]], seed: int) -> None:
    """Shuffles in place; Python promises that `random.random` never changes its sequence."""
    rng = random.Random(seed)  # noqa: S311
    keys = {group[0]: rng.random() for group in groups}
    groups.sort(key=lambda group: keys[group[0]])


def _take(groups: Sequence[list[int]], count: int) -> list[list[int]]:
    """Returns groups of at most `count` rows together; one that is too large is passed over."""
    chosen: list[list[int]] = []
    for group in groups:
        if len(group) <= count:
            chosen.append(group)
            count -= len(group)
    return chosen


def _held_out_count(rows: int, val_size: float) -> int:
    if not val_size:
        return 0
    if val_size < 1:
        return min(max(1, round(rows * val_size)), max(rows - 1, 0))
    if val_size >= rows:
        raise InputError(f"val_size: expected fewer than the {rows} usable rows, got {val_size:g}")
    return int(val_size)


def _text_cut(text: str, val_size: float) -> int | None:
    wanted = round(len(text) * (1 - val_size))
    at = text.rfind("\n", 0, wanted) + 1 or text.rfind(" ", 0, wanted) + 1
    return at if text[:at].strip() and text[at:].strip() else None
