"""Opens a GGUF file, or all parts of a split one, and checks the headers in the core.

Every part is opened once: what was checked and hashed is what is converted.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.core import OpenFile, read_gguf_header
from zoo.core.errors import GymError, InputError, NotAvailableError, StorageError
from zoo.models.gguf.metadata import Metadata, is_equal, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.gguf import GgufHeader, GgufTensor

_SPLIT = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_CHUNK_BYTES = 1 << 22
_SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count")
_MOST_PARTS = 1000


@dataclass(frozen=True)
class Stamp:
    """What changes when a file is written: its device, inode, size and times."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True)
class Part:
    """An open file with its checked header."""

    path: Path
    file: OpenFile
    header: "GgufHeader"
    stamp: Stamp

    @property
    def metadata(self) -> Metadata:
        """The values of its header."""
        return Metadata(self.path, self.header.metadata)


@dataclass(frozen=True)
class Source:
    """A model in GGUF.

    Attributes:
        path: the file that the user named.
        parts: one, or all parts of a split file in order.
        metadata: the values of the first part, without those of its place among the parts.
        tensors: part and place of each tensor by name.
    """

    path: Path
    parts: tuple[Part, ...]
    metadata: Metadata
    tensors: "dict[str, tuple[Part, GgufTensor]]"

    def read(self, name: str) -> "NDArray[np.uint8]":
        """Returns the bytes of a tensor as they are stored.

        Raises:
            InputError: the file has become shorter.
        """
        part, tensor = self.tensors[name]
        return part.file.read(tensor.start, tensor.stop)

    def type_counts(self) -> dict[str, int]:
        """Returns the number of tensors of each ggml type, the most frequent first."""
        counts: dict[str, int] = {}
        for _, tensor in self.tensors.values():
            counts[tensor.type] = counts.get(tensor.type, 0) + 1
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def sha256(self) -> str:
        """Returns the SHA-256 of the bytes of all parts in order, in hexadecimal."""
        hasher = hashlib.sha256()
        for part in self.parts:
            for start in range(0, part.stamp.size_bytes, _CHUNK_BYTES):
                stop = min(start + _CHUNK_BYTES, part.stamp.size_bytes)
                hasher.update(part.file.read(start, stop).data)
        return hasher.hexdigest()

    def refuse_changed(self) -> None:
        """Refuses files that were written since they were opened.

        Raises:
            InputError: one was.
        """
        for part in self.parts:
            if stamp_of(part.path) != part.stamp:
                raise InputError(
                    f"'{part.path}' was changed while it was read", code="models.changed_while_read"
                )


def open_gguf(path: Path) -> Source:
    """Opens a file and, if it is a part of a split one, all others.

    Raises:
        InputError: no GGUF file, a malformed one, no tensors, or parts that do not belong together.
        NotAvailableError: there is no such file, or a part is missing.
        StorageError: it cannot be read.
    """
    parts = tuple(_open_part(file) for file in _part_paths(path))
    _check_parts(parts)
    _refuse_other_values(parts)
    tensors: dict[str, tuple[Part, GgufTensor]] = {}
    for part in parts:
        for name, tensor in part.header.tensors.items():
            if name in tensors:
                raise InputError(
                    f"'{part.path}': tensor '{name}' is in another part as well",
                    code="models.gguf_parts",
                )
            tensors[name] = part, tensor
    if not tensors:
        raise InputError(
            f"'{path}' holds no model: expected tensors, got a vocabulary or metadata",
            code="models.gguf_without_model",
        )
    first = parts[0].metadata
    total = first.integer("split.tensors.count")
    if len(parts) > 1 and total is not None and total != len(tensors):
        raise InputError(
            f"'{path}': expected {total} tensors in its parts, got {len(tensors)}",
            code="models.gguf_parts",
        )
    values = {key: value for key, value in first.values.items() if key not in _SPLIT_KEYS}
    return Source(path, parts, Metadata(path, values), tensors)


def stamp_of(path: Path) -> Stamp:
    """Returns the stamp of a file.

    Raises:
        NotAvailableError: there is no such file.
        StorageError: it cannot be read.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return Stamp(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def is_gguf(path: Path) -> bool:
    """Returns whether a path has the suffix of GGUF."""
    return path.suffix.lower() == ".gguf"


def _open_part(path: Path) -> Part:
    stamp = stamp_of(path)
    try:
        file = OpenFile(os.fspath(path))
        return Part(path, file, read_gguf_header(file), stamp)
    except OSError as error:
        raise _unreadable(path, error) from error


def _part_paths(path: Path) -> list[Path]:
    match = _SPLIT.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    if not 1 <= int(match["number"]) <= count <= _MOST_PARTS:
        raise InputError(
            f"'{path}': expected a part from 1 to {min(count, _MOST_PARTS)} of at most "
            f"{_MOST_PARTS}, got {int(match['number'])} of {count}",
            code="models.gguf_parts",
        )
    names = [f"{match['stem']}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    names[int(match["number"]) - 1] = path.name  # as it is written, its suffix in any case
    missing = [name for name in names if not path.with_name(name).exists()]
    if path.exists() and missing:
        raise NotAvailableError(
            f"'{path}' is one of {count} parts: expected '{missing[0]}' beside it, got none",
            hint="download or copy all parts into one folder",
            code="models.gguf_missing_part",
        )
    return [path.with_name(name) for name in names]


def _check_parts(parts: tuple[Part, ...]) -> None:
    """Refuses a part without the others, and parts in another order than their names."""
    for number, part in enumerate(parts):
        count = part.metadata.integer("split.count")
        position = part.metadata.integer("split.no")
        if count is None:
            count = 1
        if count < 0:
            raise part.metadata.unlike("split.count", "a whole number from 0", count)
        if count not in {0, len(parts)}:
            raise InputError(
                f"'{part.path}' is a part of a split file: expected {count} parts, "
                f"got {len(parts)}",
                hint=f"name all of them alike: NAME-00001-of-{count:05}.gguf",
                code="models.gguf_parts",
            )
        if len(parts) > 1 and position != number:
            raise part.metadata.unlike("split.no", str(number), position)


def _refuse_other_values(parts: tuple[Part, ...]) -> None:
    """Refuses a value in a later part that the first does not have: it would have no effect."""
    first = parts[0].metadata.values
    for part in parts[1:]:
        for key, value in part.metadata.values.items():
            is_of_part = key.startswith("split.") or key == "general.alignment"
            if not is_of_part and not is_equal(value, first.get(key)):
                expected = f"{shown(first.get(key))} as in '{parts[0].path.name}'"
                raise part.metadata.unlike(key, expected, value)


def _unreadable(path: Path, error: OSError) -> GymError:
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotAvailableError(f"no such file: '{path}'", code="models.no_such_file")
    if isinstance(error, PermissionError):
        return StorageError(f"'{path}' cannot be read: {reason}", code="models.unreadable_file")
    return InputError(
        f"'{path}' cannot be read: expected a GGUF file, got: {reason}", code="models.not_a_gguf"
    )
