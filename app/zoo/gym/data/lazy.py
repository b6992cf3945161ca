"""Units of many rows: each is encoded when it is used, so that only rows in use take memory.

Lengths, and the rows that cannot be used, are estimated from a sample. A row that turns out to be
unusable is reported, and the next usable one is taken in its place.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

from zoo.gym.data.encode import Encoded, encode_all, encode_records
from zoo.gym.data.record_file import StoredRecords
from zoo.gym.data.records import Problem, Record
from zoo.gym.data.rows import EncodeOptions, Encoder, make_encoder
from zoo.gym.data.tokenizer import Tokenizer
from zoo.gym.data.units import Unit
from zoo.gym.errors import InputError

SAMPLED_ROWS = 2000
"""Rows, evenly spaced, that are encoded in advance."""

LONGEST_ROWS = 64
"""Rows with the most bytes that are encoded in advance, too: the longest in tokens is among them
unless the text of that row is far denser than that of all these."""

_CACHED_UNITS = 256
_MOST_UNUSABLE = 1000


def encode_dataset(
    records: Sequence[Record], tokenizer: Tokenizer, options: EncodeOptions
) -> Encoded:
    """Turns rows into examples as `encode_records` does, but many stored rows lazily.

    Raises:
        InputError: see `encode_records`; of many rows, none of the sample is usable.
    """
    if not isinstance(records, StoredRecords) or len(records) <= SAMPLED_ROWS:
        return encode_records(records, tokenizer, options)
    sample = encode_records(sample_of(records), tokenizer, options)
    encoder = make_encoder(tokenizer, options)
    seen = (*sample.units, *encode_all(encoder, longest_of(records)).units)
    rows, sampled = len(records), SAMPLED_ROWS
    return replace(
        sample,
        units=LazyUnits(records, encoder, seen),
        truncated=round(sample.truncated * rows / sampled),
        dropped_unlearned=round(sample.dropped_unlearned * rows / sampled),
        sampled=sampled,
        seen=seen,
        tokens=round(sample.tokens * rows / sampled),
        lost=round(sample.lost * rows / sampled),
    )


class LazyUnits(Sequence[Unit]):
    """The units of stored rows, one per row, encoded on access.

    Args:
        records: rows of chats, completions or pairs.
        encoder: the model's encoder.
        seen: units that are encoded already.

    Attributes:
        seen: these units.
        report: called with each row that turns out to be unusable, once.

    """

    def __init__(self, records: StoredRecords, encoder: Encoder, seen: Sequence[Unit] = ()) -> None:
        self._records, self._encoder, self.seen = records, encoder, seen
        self.report: Callable[[Problem], object] = lambda _: None
        self._unusable: dict[int, Problem] = {}
        self._cache: OrderedDict[int, Unit] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Unit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Unit]: ...
    def __getitem__(self, index: int | slice) -> Unit | list[Unit]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        for step in range(min(len(self), _MOST_UNUSABLE)):
            unit = self._unit((index + step) % len(self))
            if unit is not None:
                return unit
        raise InputError(
            f"{_MOST_UNUSABLE} rows in a row cannot be used: {self._unusable[index % len(self)]}"
        )

    def _unit(self, place: int) -> Unit | None:
        """Returns the unit of a row, or None if it has nothing to learn or is refused."""
        if place in self._cache:
            self._cache.move_to_end(place)
            return self._cache[place]
        if place in self._unusable:
            return None
        record = self._records[place]
        found = encode_all(self._encoder, [record])
        if not found.units:
            self._unusable[place] = _problem(record, found, self._encoder.options.cutoff_len)
            self.report(self._unusable[place])
            return None
        self._cache[place] = found.units[0]
        if len(self._cache) > _CACHED_UNITS:
            self._cache.popitem(last=False)
        return found.units[0]


def seen_of(units: Sequence[Unit]) -> Sequence[Unit]:
    """Returns the units that are encoded already: of many rows a sample, otherwise all."""
    return units.seen if isinstance(units, LazyUnits) else units


def _problem(record: Record, found: Encoded, cutoff_len: int) -> Problem:
    if found.problems:
        return found.problems[0]
    return Problem(record.source, f"nothing to learn within cutoff_len {cutoff_len}")


def sample_of(records: StoredRecords) -> list[Record]:
    """Returns at most `SAMPLED_ROWS` rows, evenly spaced."""
    count = min(SAMPLED_ROWS, len(records))
    return [records[place * len(records) // count] for place in range(count)]


def longest_of(records: StoredRecords) -> list[Record]:
    """Returns the rows with the most bytes, at most `LONGEST_ROWS`."""
    import numpy as np

    sizes = records.sizes()
    count = min(LONGEST_ROWS, len(sizes))
    return [records[int(place)] for place in np.argpartition(sizes, -count)[-count:]]
