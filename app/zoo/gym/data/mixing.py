"""Mixes the rows of several files by shares.

Rows are taken from one file after the other, at random by the shares or in turn, each file in its
order, until the first file is used up (`interleave_under`) or every file is (`interleave_over`,
which begins again with those used up before).
"""

import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from typing import TYPE_CHECKING, Literal

from zoo.gym.data.record_file import StoredRecords
from zoo.gym.data.records import Record
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Strategy = Literal["concat", "interleave_under", "interleave_over"]


@dataclass(frozen=True)
class Mix:
    """How files are mixed.

    Attributes:
        strategy: one of those above; `concat` takes one file after the other.
        shares: the share of each file, adding up to 1; None takes rows in turn.
    """

    strategy: Strategy = "concat"
    shares: tuple[float, ...] | None = None
    seed: int = 0


def check_mix(files: int, mix: Mix) -> None:
    """Refuses a mix that does not fit the number of files.

    Raises:
        InputError: there is one file, or another number of shares.
    """
    if mix.strategy == "concat":
        return
    if files < 2:
        raise InputError(
            f"mix_strategy: expected several files in dataset, got {files}", code="data.bad_mix"
        )
    if mix.shares is not None and len(mix.shares) != files:
        raise InputError(
            f"interleave_probs: expected {files} shares, one for each file, got {len(mix.shares)}",
            code="data.bad_mix",
        )


def mixed(
    records: Sequence[Record], rows_per_file: Sequence[int], mix: Mix, apart: int = 0
) -> tuple[Sequence[Record], tuple[int, ...]]:
    """Returns the mixed rows, and how many are from each file.

    Args:
        apart: how many files at the end stay as they are.

    Raises:
        InputError: see `check_mix`, or there are texts, which are joined in their order.
    """
    if mix.strategy == "concat":
        return records, tuple(rows_per_file)
    import numpy as np

    mixed_files = len(rows_per_file) - apart
    check_mix(mixed_files, mix)
    stored = isinstance(records, StoredRecords)
    if not stored and any(record.kind == "text" for record in records):
        raise InputError(
            "mix_strategy: texts are joined in the order of their files: expected rows of chats, "
            "prompts or pairs, or mix_strategy concat",
            code="data.mixed_texts",
        )
    ends = np.cumsum(rows_per_file)
    order = mixed_order(rows_per_file[:mixed_files], mix)
    order = np.concatenate([order, np.arange(ends[mixed_files - 1], ends[-1])])
    counts = np.bincount(np.searchsorted(ends, order, side="right"), minlength=len(ends)).tolist()
    if isinstance(records, StoredRecords):
        return records.select(order), tuple(counts)
    return tuple(records[index] for index in order.tolist()), tuple(counts)


def mixed_order(rows_per_file: Sequence[int], mix: Mix) -> "NDArray[np.int64]":
    """Returns the indices of the mixed rows, int64."""
    import numpy as np

    starts = [0, *accumulate(rows_per_file)]
    used = [0] * len(rows_per_file)
    order = array("q")
    for file in _files(len(rows_per_file), mix):
        order.append(starts[file] + used[file] % rows_per_file[file])
        used[file] += 1
        is_used_up = used[file] == rows_per_file[file]
        if is_used_up and (
            mix.strategy == "interleave_under"
            or all(count >= rows for count, rows in zip(used, rows_per_file, strict=True))
        ):
            break
    return np.array(order, dtype=np.int64)


def _files(files: int, mix: Mix) -> Iterator[int]:
    """Yields the file of each row, without an end."""
    if mix.shares is None:
        yield from cycle(range(files))
        return
    bounds = list(accumulate(mix.shares))
    rng = random.Random(mix.seed)  # noqa: S311
    while True:
        yield min(bisect_right(bounds, rng.random()), files - 1)
