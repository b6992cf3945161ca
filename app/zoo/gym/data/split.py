"""Splits off held-out rows, to measure on data that was not learned.

Chats and pairs are drawn by a seeded shuffle, because files are often sorted; texts are held out at
their end, because a text continues from one row to the next. Rows with equal content, chats that
continue each other, and pairs with one prompt stay on one side.
"""

import random
from collections.abc import Iterable, Sequence
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
                f"dataset: expected the {self.rows} rows that were split, got {len(records)}",
                code="data.changed",
            )
        if isinstance(records, StoredRecords):
            import numpy as np

            apart = np.zeros(self.rows, dtype=np.bool_)
            apart[list(self.held_out)] = True
            return records.select(np.flatnonzero(~apart)), records.select(np.flatnonzero(apart))
        indices = set(self.held_out)
        learned: list[Record] = []
        held_out: list[Record] = []
        for index, row in enumerate(records):
            if self.cut is not None and index == self.cut_row:
                learned.append(replace(row, text=row.text[: self.cut], ends=False))
                held_out.append(replace(row, text=row.text[self.cut :]))
            else:
                (held_out if index in indices else learned).append(row)
        return tuple(learned), tuple(held_out)


def split_records(records: Sequence[Record], val_size: float, seed: int) -> Split:
    """Splits rows into those that are learned and those held out.

    Args:
        val_size: below 1 the share to hold out, at least one row; from 1 on the number of rows; 0
            holds out none. A share of chats and pairs is counted in rows. A share of texts is
            counted in characters: the end of the texts is held out, and the first text of it is
            cut at the end of a line (or of a word). If a group of rows that must stay together is
            larger than the remaining share, less is held out.

    Raises:
        InputError: `val_size` is negative, not a whole number although above 1, or leaves nothing
            to learn.
    """
    _check_size(val_size)
    import numpy as np

    related = related_rows(records)
    count = _held_out_count(len(records), val_size)
    texts, order = _text_groups(records, related), _shuffled_groups(records, related, seed)
    sizes = np.bincount(related.group, minlength=related.groups)[order]
    of_texts = round(count * sum(map(len, texts)) / max(1, len(records)))
    cut, cut_row = None, 0
    if 0 < val_size < 1:
        chosen, cut = _text_end(records, texts, val_size)
        cut_row = chosen[-1][0] if cut is not None else 0
    else:
        chosen = [texts[index] for index in _take(map(len, texts), of_texts)]
    groups = _take(sizes, count - of_texts)
    if not chosen and not groups and count and related.groups > 1:
        if len(order):
            groups = [int(sizes.argmin())]
        else:
            chosen = [min(texts, key=lambda group: (len(group), _characters(records, group)))]
    rows = np.flatnonzero(np.isin(related.group, order[groups])).tolist()
    held_out = tuple(sorted({*rows, *(index for group in chosen for index in group)}))
    return Split(len(records), held_out, cut, related.duplicates, cut_row, related.same_prompt)


def split_last(records: Sequence[Record], count: int) -> Split:
    """Holds out the last `count` rows, which are those of a file of its own."""
    learned = len(records) - count
    group = related_rows(records).group
    learned_groups = set(group[:learned].tolist())
    also_learned = sum(number in learned_groups for number in group[learned:].tolist())
    return Split(len(records), tuple(range(learned, len(records))), also_learned=also_learned)


def split_at_end(records: Sequence[Record], val_size: float) -> Split:
    """Holds out the last rows, as in older runs without a stored split."""
    rows = tuple(records)
    _check_size(val_size)
    if 0 < val_size < 1 and len(rows) == 1 and rows[0].kind == "text":
        text = rows[0].text
        learned = round(len(text) * (1 - val_size))
        cut = _checked(text, text.rfind("\n", 0, learned) + 1 or text.rfind(" ", 0, learned) + 1)
        return Split(1, () if cut is None else (0,), cut)
    count = _held_out_count(len(rows), val_size)
    return Split(len(rows), tuple(range(len(rows) - count, len(rows))))


def _check_size(val_size: float) -> None:
    if not val_size >= 0 or (val_size >= 1 and val_size != int(val_size)):
        raise InputError(
            f"val_size: expected a share from 0 to below 1 or a whole number of rows, "
            f"got {val_size!r}",
            code="data.bad_val_size",
        )


def _shuffled_groups(records: Sequence[Record], related: Related, seed: int) -> "NDArray[np.int64]":
    """Returns the groups of rows that are not texts, in the order in which they are held out."""
    import numpy as np

    is_shuffled = np.ones(related.groups, dtype=np.bool_)
    is_shuffled[related.group[_text_rows(records)]] = False
    groups = np.flatnonzero(is_shuffled)
    # Python guarantees that the sequence of `random.random` never changes
    rng = random.Random(seed)  # noqa: S311
    keys = np.fromiter((rng.random() for _ in groups), dtype=np.float64, count=len(groups))
    return groups[np.argsort(keys, kind="stable")]


def _text_rows(records: Sequence[Record]) -> list[int]:
    if isinstance(records, StoredRecords):  # texts are kept in memory
        return []
    return [index for index, row in enumerate(records) if row.kind == "text"]


def _text_groups(records: Sequence[Record], related: Related) -> list[list[int]]:
    """Returns the rows of each group of equal texts, the last text first."""
    groups: dict[int, list[int]] = {}
    for index in _text_rows(records):
        groups.setdefault(int(related.group[index]), []).append(index)
    return sorted(groups.values(), key=lambda group: -group[-1])


def _take(sizes: Iterable[int], count: int) -> list[int]:
    """Returns the indices of groups with at most `count` rows in total; skips larger groups."""
    chosen: list[int] = []
    for index, size in enumerate(sizes):
        if count <= 0:
            break
        if size <= count:
            chosen.append(index)
            count -= size
    return chosen


def _held_out_count(rows: int, val_size: float) -> int:
    if not val_size:
        return 0
    if val_size < 1:
        return min(max(1, round(rows * val_size)), max(rows - 1, 0))
    if val_size >= rows:
        raise InputError(
            f"val_size: expected fewer than the {rows} usable rows, got {val_size:g}",
            code="data.bad_val_size",
        )
    return int(val_size)


def _characters(rows: Sequence[Record], group: Sequence[int]) -> int:
    return sum(len(rows[index].text) for index in group)


def _text_end(
    rows: Sequence[Record], texts: Sequence[list[int]], val_size: float
) -> tuple[list[list[int]], int | None]:
    """Returns the groups of texts to hold out from the end, counted in characters.

    Args:
        texts: groups of equal texts, the last one first.

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
    line, word = (text.rfind(mark, 0, learned) + 1 for mark in "\n ")
    # the line may start far back, as with a title above one long line
    near = len(text) - line <= 2 * (len(text) - learned)
    return _checked(text, line if near else max(line, word))


def _checked(text: str, cut: int) -> int | None:
    return cut if text[:cut].strip() and text[cut:].strip() else None
