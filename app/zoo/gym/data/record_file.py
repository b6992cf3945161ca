"""Rows on disk: a sequence of records that takes eight bytes of memory per row.

Rows of any format are written once, as they are read, to a file without a name in the cache folder,
which the system removes when the process ends. So data in a compressed file, a table or several
files can be read in any order. Each row is one line of JSON.
"""

import json
import tempfile
import weakref
from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import IO, TYPE_CHECKING, Any, TypeVar, overload

from zoo.gym.data.records import Call, Message, Record
from zoo.gym.files import storage_errors
from zoo.gym.paths import ensure_folder, folders

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_BLOCK_ROWS = 256
_NEAR = 2
"""Rows are read together if at least half of the block is used."""

_RECORD = tuple(field.name for field in fields(Record))
_MESSAGE = tuple(field.name for field in fields(Message))
_VALUES: "dict[type, attrgetter[Any]]" = {
    kind: attrgetter(*(part.name for part in fields(kind))) for kind in (Record, Message, Call)
}
_MESSAGES, _SIDES, _TOOLS = (_RECORD.index(name) for name in ("messages", "sides", "tools"))
_CALLS = _MESSAGE.index("calls")


def _as_list(value: object) -> object:
    return _VALUES[type(value)](value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_as_list)


def packed(record: Record) -> bytes:
    """Returns a record as one line of JSON: the values of its fields, in order."""
    return _ENCODER.encode(record).encode("utf-8") + b"\n"


def unpacked(line: bytes) -> Record:
    """Returns the record that `packed` was given."""
    return _record(json.loads(line))


def _record(values: list[Any]) -> Record:
    values[_MESSAGES] = tuple(_message(turn) for turn in values[_MESSAGES])
    values[_SIDES] = tuple(_record(side) for side in values[_SIDES])
    values[_TOOLS] = tuple(values[_TOOLS])
    return Record(*values)


def _message(values: list[Any]) -> Message:
    values[_CALLS] = tuple(Call(*call) for call in values[_CALLS])
    return Message(*values)


class RecordFile:
    """A file of records that is appended to, and read by index."""

    def __init__(self) -> None:
        folder = ensure_folder(folders().cache)
        with storage_errors(folder):
            file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as the rows
        self._file: IO[bytes] = file
        weakref.finalize(self, file.close)
        self._folder = folder
        self._starts = array("Q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def append(self, record: Record) -> None:
        """Adds a record at the end.

        Raises:
            StorageError: the file cannot be written, as on a full disk.
        """
        line = packed(record)
        with storage_errors(self._folder):
            self._file.write(line)
        self._starts.append(self._starts[-1] + len(line))

    def truncate(self, rows: int) -> None:
        """Removes the records from number `rows` on."""
        del self._starts[rows + 1 :]
        with storage_errors(self._folder):
            self._file.truncate(self._starts[-1])
            self._file.seek(0, 2)

    def read(self, first: int, stop: int) -> list[Record]:
        """Returns the records from `first` to before `stop`."""
        start = self._starts[first]
        with storage_errors(self._folder):
            self._file.flush()
            self._file.seek(start)
            block = self._file.read(self._starts[stop] - start)
            self._file.seek(0, 2)
        return [unpacked(line) for line in block.splitlines()]

    def sizes(self) -> "NDArray[np.uint64]":
        """Returns the bytes of each row in the file, which grow with its tokens."""
        import numpy as np

        starts = np.frombuffer(self._starts, dtype=np.uint64)
        return starts[1:] - starts[:-1]


class LazySequence(Sequence[T]):
    """A sequence that makes an element when it is read."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self.read(row) for row in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.read(index % len(self))

    @abstractmethod
    def read(self, index: int) -> T:
        """Returns the element with an index from 0."""


class StoredRecords(LazySequence[Record]):
    """Some of the records of a file, or all, in an order.

    Args:
        order: their indices in the file; by default all.
    """

    def __init__(self, file: RecordFile, order: "NDArray[np.int64] | None" = None) -> None:
        self.file, self._order = file, order

    def __len__(self) -> int:
        return len(self.file) if self._order is None else len(self._order)

    def __iter__(self) -> Iterator[Record]:
        """Yields the records; those that are near each other in the file are read together."""
        count = len(self)
        for at in range(0, count, _BLOCK_ROWS):
            rows = range(at, min(at + _BLOCK_ROWS, count))
            order = rows if self._order is None else self._order[at : rows.stop].tolist()
            first, last = min(order), max(order)
            if last - first < _NEAR * len(order):
                block = self.file.read(first, last + 1)
                yield from (block[row - first] for row in order)
            else:
                yield from map(self.read, rows)

    def read(self, index: int) -> Record:
        """Returns the record with an index from 0."""
        row = index if self._order is None else int(self._order[index])
        return self.file.read(row, row + 1)[0]

    def select(self, order: "NDArray[np.int64]") -> "StoredRecords":
        """Returns the records with these indices, in that order."""
        return StoredRecords(self.file, order if self._order is None else self._order[order])

    def sizes(self) -> "NDArray[np.uint64]":
        """Returns the bytes of each record in the file, which grow with its tokens."""
        sizes = self.file.sizes()
        return sizes if self._order is None else sizes[self._order]


class RecordStore:
    """Collects records: in memory, or in a file if there are many.

    All records stay in memory if there are texts among them, which are joined and cut anew.

    Args:
        in_memory_rows: above this number they are stored in a file.
    """

    def __init__(self, in_memory_rows: int) -> None:
        self._limit = in_memory_rows
        self._memory: list[Record] = []
        self._file: RecordFile | None = None
        self._texts = False

    def __len__(self) -> int:
        return len(self._memory if self._file is None else self._file)

    def append(self, record: Record) -> None:
        """Adds a record.

        Raises:
            StorageError: the file cannot be written.
        """
        if record.kind == "text" and not self._texts:
            self._texts = True
            if self._file is not None:
                self._memory, self._file = self._file.read(0, len(self._file)), None
        if self._file is not None:
            self._file.append(record)
            return
        self._memory.append(record)
        if len(self._memory) > self._limit and not self._texts:
            self._file = RecordFile()
            for row in self._memory:
                self._file.append(row)
            self._memory = []

    def truncate(self, rows: int) -> None:
        """Removes the records from number `rows` on."""
        if self._file is not None:
            self._file.truncate(rows)
        else:
            del self._memory[rows:]

    def records(self) -> Sequence[Record]:
        """Returns all records, in order."""
        return tuple(self._memory) if self._file is None else StoredRecords(self._file)
