"""Splits off held-out rows, to measure on data that was not learned.

Chats and pairs are drawn by a seeded shuffle, because files are often sorted; texts are held out at
their end, because a text continues from one row to the next. Rows with equal content, chats that
continue each other, and pairs with one prompt stay on one side.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zoo.gym.data.equality import Related, related_rows
from zoo.gym.data.record_file import StoredRecords
from zoo.gym.data.records import Record
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Split:
    """Which rows are learned and which are held out, in a form that a run can store.

    Attributes:
        rows: the number of all rows.
        held_out: the indices of rows held out, completely or in part, in increasing order.
        cut: the number of learned characters of the text in which the held-out part begins; None
            if no row is cut.
        duplicates: the number of rows with the same content as an earlier one.
        cut_row: the index of that text; it is one of `held_out`.
        same_prompt: the number of other pairs with the prompt of an earlier one.
        also_learned: the number of held-out rows with the content or the prompt of a learned one.
    """

    rows: int
    held_out: tuple[int, ...]
    cut: int | None = None
    duplicates: int = 0
    cut_row: int = 0
    same_prompt: int = 0
    also_learned: int = 0

    def apply(self, records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
        """Returns the rows to learn and the rows held out, each in order.

        Raises:
            InputError: these are not the rows that the split was made for.
        """
        if len(records) != self.rows:
            raise InputError(
                f"dataset: expected the {self.rows} rows that were split, got {len(records)}"
            )
        if isinstance(records, StoredRecords):
            return self._of_stored(records)
        apart = set(self.held_out)
        learned: list[Record] = []
        kept: list[Record] = []
        for place, row in enumerate(records):
            if self.cut is not None and place == self.cut_row:
                learned.append(replace(row, text=row.text[: self.cut], ends=False))
                kept.append(replace(row, text=row.text[self.cut :]))
            else:
                (kept if place in apart else learned).append(row)
        return tuple(learned), tuple(kept)

    def _of_stored(self, records: StoredRecords) -> tuple[StoredRecords, StoredRecords]:
        import numpy as np

        apart = np.zeros(self.rows, dtype=np.bool_)
        apart[list(self.held_out)] = True
        return records.select(np.flatnonzero(~apart)), records.select(np.flatnonzero(apart))


def split_records(records: Sequence[Record], val_size: float, seed: int) -> Split:
    """Splits rows into those that are learned and those held out.

    Args:
        records: all rows.
        val_size: below 1 the share to hold out, at least one row; from 1 on the number of rows; 0
            holds out none. A share of chats and pairs is counted in rows. A share of texts is
            counted in characters: the end of the texts is held out, and the first text of it is
            cut at the end of a line (or of a word). If a group of rows that must stay together is
            larger than the remaining share, less is held out.
        seed: the seed of the shuffle.

    Raises:
        InputError: `val_size` is negative, not a whole number although above 1, or leaves nothing
            to learn.
    """
    _check_size(val_size)
    related = related_rows(records)
    count = _held_out_count(len(records), val_size)
    texts, others = _text_groups(records, related), _shuffled_groups(records, related, seed)
    of_texts = round(count * sum(map(len, texts)) / max(1, len(records)))
    cut, cut_row = None, 0
    if 0 < val_size < 1:
        chosen, cut = _text_end(records, texts, val_size)
        cut_row = chosen[-1][0] if cut is not None else 0
    else:
        chosen = _take(texts, of_texts)
    held_out = {place for group in chosen for place in group}
    held_out |= others.rows_of(others.take(count - of_texts))
    if not held_out and count and related.groups > 1:
        smallest = others.smallest()
        if smallest is not None:
            held_out = others.rows_of([smallest])
        else:
            shortest = min(texts, key=lambda group: (len(group), _characters(records, group)))
            held_out = set(shortest)
    places = tuple(sorted(held_out))
    return Split(len(records), places, cut, related.duplicates, cut_row, related.same_prompt)


def split_last(records: Sequence[Record], count: int) -> Split:
    """Holds out the last `count` rows, which are those of a file of its own."""
    learned = len(records) - count
    group = related_rows(records).group
    known = set(group[:learned].tolist())
    also_learned = sum(number in known for number in group[learned:].tolist())
    return Split(len(records), tuple(range(learned, len(records))), also_learned=also_learned)


def split_at_end(records: Sequence[Record], val_size: float) -> Split:
    """Holds out the last rows, as in older runs without a stored split."""
    rows = tuple(records)
    _check_size(val_size)
    if 0 < val_size < 1 and len(rows) == 1 and rows[0].kind == "text":
        text = rows[0].text
        learned = round(len(text) * (1 - val_size))
        cut = _checked(text, _behind("\n", text, learned) or _behind(" ", text, learned))
        return Split(1, () if cut is None else (0,), cut)
    count = _held_out_count(len(rows), val_size)
    return Split(len(rows), tuple(range(len(rows) - count, len(rows))))


def _check_size(val_size: float) -> None:
    if not val_size >= 0 or (val_size >= 1 and val_size != int(val_size)):
        raise InputError(
            f"val_size: expected a share from 0 to below 1 or a whole number of rows, "
            f"got {val_size!r}"
        )


@dataclass(frozen=True)
class _Shuffled:
    """The groups of rows that are not texts, in the order in which they are held out.

    Attributes:
        related: all groups.
        order: the shuffled groups, int64.
        sizes: the rows of every group.
    """

    related: Related
    order: "NDArray[np.int64]"
    sizes: "NDArray[np.int64]"

    def take(self, count: int) -> list[int]:
        """Returns groups with at most `count` rows in total; skips groups that are too large."""
        chosen: list[int] = []
        for group, size in zip(self.order, self.sizes[self.order], strict=True):
            if count <= 0:
                break
            if size <= count:
                chosen.append(int(group))
                count -= int(size)
        return chosen

    def smallest(self) -> int | None:
        """Returns the first of the smallest groups, None if there is no group."""
        if not len(self.order):
            return None
        return int(self.order[self.sizes[self.order].argmin()])

    def rows_of(self, groups: Sequence[int]) -> set[int]:
        """Returns the rows of groups."""
        import numpy as np

        chosen = np.zeros(self.related.groups, dtype=np.bool_)
        chosen[list(groups)] = True
        return set(np.flatnonzero(chosen[self.related.group]).tolist())


def _shuffled_groups(records: Sequence[Record], related: Related, seed: int) -> _Shuffled:
    """Shuffles; Python guarantees that the sequence of `random.random` never changes."""
    import numpy as np

    sizes = np.bincount(related.group, minlength=related.groups)
    others = np.ones(related.groups, dtype=np.bool_)
    others[related.group[_places_of_texts(records)]] = False
    groups = np.flatnonzero(others)
    rng = random.Random(seed)  # noqa: S311
    keys = np.fromiter((rng.random() for _ in groups), dtype=np.float64, count=len(groups))
    return _Shuffled(related, groups[np.argsort(keys, kind="stable")], sizes)


def _places_of_texts(records: Sequence[Record]) -> list[int]:
    if isinstance(records, StoredRecords):  # texts are kept in memory
        return []
    return [place for place, row in enumerate(records) if row.kind == "text"]


def _text_groups(records: Sequence[Record], related: Related) -> list[list[int]]:
    """Returns the rows of each group of equal texts, the last text first."""
    groups: dict[int, list[int]] = {}
    for place in _places_of_texts(records):
        groups.setdefault(int(related.group[place]), []).append(place)
    return sorted(groups.values(), key=lambda group: -group[-1])


def _take(groups: Sequence[list[int]], count: int) -> list[list[int]]:
    """Returns groups with at most `count` rows in total; skips groups that are too large."""
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


def _characters(rows: Sequence[Record], group: Sequence[int]) -> int:
    return sum(len(rows[place].text) for place in group)


def _text_end(
    rows: Sequence[Record], texts: Sequence[list[int]], val_size: float
) -> tuple[list[list[int]], int | None]:
    """Returns the groups of texts to hold out from the end, counted in characters.

    Args:
        rows: all rows.
        texts: groups of equal texts, the last one first.
        val_size: the share to hold out.

    Returns:
        The groups, and the number of characters to learn of the last one; None if it is not cut.
    """
    sizes = [_characters(rows, group) for group in texts]
    left = sum(sizes) - max(1, round(sum(sizes) * (1 - val_size)))
    chosen: list[list[int]] = []
    for group, size in zip(texts, sizes, strict=True):
        if size <= left:
            chosen.append(group)
            left -= size
        elif left and len(group) == 1:
            cut = _text_cut(rows[group[0]].text, size - left)
            if cut is not None:
                return [*chosen, group], cut
            if chosen:
                break
    return chosen, None


def _text_cut(text: str, learned: int) -> int | None:
    """Returns where to cut a text so that about `learned` characters are learned."""
    line, word = _behind("\n", text, learned), _behind(" ", text, learned)
    # the line may start far back, as with a title above one long line
    near = len(text) - line <= 2 * (len(text) - learned)
    return _checked(text, line if near else max(line, word))


def _behind(mark: str, text: str, end: int) -> int:
    return text.rfind(mark, 0, end) + 1


def _checked(text: str, cut: int) -> int | None:
    return cut if text[:cut].strip() and text[cut:].strip() else None
