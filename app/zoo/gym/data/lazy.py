"""Units of many rows: each is encoded when it is used, so that only rows in use take memory.

Lengths, and the rows that cannot be used, are estimated from a sample. A row that turns out to be
unusable is reported, and the next usable one is taken in its place.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from zoo.gym.data.encode import Encoded, encode_all, encode_records
from zoo.gym.data.record_file import LazySequence, StoredRecords
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
    counts = ("truncated", "dropped_unlearned", "tokens", "lost")
    scaled = {name: getattr(sample, name) * len(records) / SAMPLED_ROWS for name in counts}
    return replace(
        sample,
        units=LazyUnits(records, encoder, seen),
        sampled=SAMPLED_ROWS,
        seen=seen,
        **{name: round(count) for name, count in scaled.items()},
    )


class LazyUnits(LazySequence[Unit]):
    """The units of stored rows, one per row, encoded on access.

    Args:
        records: rows of chats, completions or pairs.

    Attributes:
        report: called with each row that turns out to be unusable, once.
    """

    def __init__(self, records: StoredRecords, encoder: Encoder, seen: Sequence[Unit] = ()) -> None:
        self._records, self._encoder, self.seen = records, encoder, seen
        self.report: Callable[[Problem], object] = lambda _: None
        self._unusable: dict[int, Problem] = {}
        self._cache: OrderedDict[int, Unit] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def read(self, index: int) -> Unit:
        """Returns the unit of a row; of an unusable row, that of the next usable one.

        Raises:
            InputError: too many consecutive rows are unusable.
        """
        for step in range(min(len(self), _MOST_UNUSABLE)):
            unit = self._unit((index + step) % len(self))
            if unit is not None:
                return unit
        problem = self._unusable[index]
        raise InputError(
            f"{_MOST_UNUSABLE} consecutive rows cannot be used: {problem}",
            code="data.unusable_rows",
        )

    def _unit(self, index: int) -> Unit | None:
        """Returns the unit of a row, or None if it has nothing to learn or is refused."""
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        if index in self._unusable:
            return None
        record = self._records[index]
        encoded = encode_all(self._encoder, [record])
        if not encoded.units:
            cutoff_len = self._encoder.options.cutoff_len
            reason = f"nothing to learn within cutoff_len {cutoff_len}"
            problem = (*encoded.problems, Problem(record.source, reason))[0]
            self._unusable[index] = problem
            self.report(problem)
            return None
        self._cache[index] = encoded.units[0]
        if len(self._cache) > _CACHED_UNITS:
            self._cache.popitem(last=False)
        return encoded.units[0]


def seen_of(units: Sequence[Unit]) -> Sequence[Unit]:
    """Returns the units that are encoded already: of many rows a sample, otherwise all."""
    return units.seen if isinstance(units, LazyUnits) else units


def sample_of(records: StoredRecords) -> list[Record]:
    """Returns at most `SAMPLED_ROWS` rows, evenly spaced."""
    count = min(SAMPLED_ROWS, len(records))
    return [records[index * len(records) // count] for index in range(count)]


def longest_of(records: StoredRecords) -> list[Record]:
    """Returns the rows with the most bytes, at most `LONGEST_ROWS`."""
    import numpy as np

    sizes = records.sizes()
    count = min(LONGEST_ROWS, len(sizes))
    return [records[int(index)] for index in np.argpartition(sizes, -count)[-count:]]
