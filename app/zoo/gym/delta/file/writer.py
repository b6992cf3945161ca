"""Writes a delta file, atomically and deterministically, in the oldest version that can say it.

Parts are spooled to disk until the header is known, so memory does not grow with the file.

Other safetensors files are written here as well, because the library's own writer orders the
metadata by a random hash, and needs all tensors in memory.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from zoo.gym.delta.file.header import FORMAT, DeltaHeader
from zoo.gym.delta.file.reader import (
    DIGEST_AT,
    DIGEST_LENGTH,
    PART_TYPES,
    Delta,
    load_delta,
)
from zoo.gym.delta.file.terms import PART_BYTES, Part, PartType, TensorTerms, term_parts
from zoo.gym.errors import InputError
from zoo.gym.files import new_file, storage_errors
from zoo.gym.files.lock import locked
from zoo.gym.paths import ensure_folder, folders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.gym.delta.codecs.tensor import Encoded

ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}
"""Bytes of one element by the safetensors name of its type."""


@dataclass(frozen=True)
class Entry:
    """A tensor to write: its name, the name of its type, its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of the tensor's data."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


def header_bytes(entries: Iterable[Entry], metadata: Mapping[str, str]) -> bytes:
    """Returns the length and header of a file with data in the order of `entries`.

    The metadata is first and keeps its order; spaces pad the header to 8 bytes.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    stop = 0
    for entry in entries:
        start, stop = stop, stop + entry.nbytes
        offsets = [start, stop]
        header[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write_safetensors(
    path: Path,
    entries: Iterable[Entry],
    metadata: Mapping[str, str],
    arrays: "Iterable[NDArray[Any]]",
) -> None:
    """Writes a file, consuming the arrays one by one in the order of `entries`.

    Raises:
        StorageError: the file cannot be written.
    """
    with storage_errors(path), path.open("wb") as file:
        file.write(header_bytes(entries, metadata))
        for array in arrays:
            file.write(array.data)  # contiguous: written without a copy


_ORDER: tuple[PartType, ...] = tuple(PART_BYTES)  # widest first keeps every part aligned


class Spool:
    """The parts of a new file, spooled to disk in order of arrival, one stream per type."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streams: dict[PartType, IO[bytes]] = {}
        self.parts: dict[PartType, list[Part]] = {dtype: [] for dtype in _ORDER}
        self.tensors: list[TensorTerms] = []

    def __enter__(self) -> Self:
        with storage_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for dtype in _ORDER:
                self._streams[dtype] = tempfile.TemporaryFile(dir=self._folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in self._streams.values():
            with suppress(OSError) if error is not None else storage_errors(self._folder):
                stream.close()

    def add(self, part: Part, array: "NDArray[Any]") -> None:
        """Appends a part; the array must have the part's shape and type."""
        values = array.astype(PART_TYPES[part.dtype], copy=False)
        if values.shape != part.shape or values.dtype != array.dtype:
            got = f"{array.dtype} {array.shape}"
            raise ValueError(f"{part.name}: expected {part.dtype} {part.shape}, got {got}")
        self.parts[part.dtype].append(part)
        with storage_errors(self._folder):
            self._streams[part.dtype].write(values.data)

    def add_tensor(self, encoded: "Encoded") -> None:
        """Appends all parts of a tensor's terms."""
        self.tensors.append(encoded.tensor)
        prefix = len(encoded.tensor.name) + 1
        for part in term_parts(encoded.tensor):
            self.add(part, encoded.arrays[part.name[prefix:]])

    def copy_to(self, file: IO[bytes]) -> None:
        """Writes all parts, widest type first."""
        for dtype in _ORDER:
            self._streams[dtype].seek(0)
            shutil.copyfileobj(self._streams[dtype], file, 1 << 20)


def write_delta(path: Path, header: DeltaHeader, spool: Spool) -> None:
    """Writes a delta file; the same header and parts give the same bytes.

    Raises:
        StorageError: the file cannot be written.
        InputError: two parts have the same name, or a number in the recipe is not finite.
    """
    entries = [Entry(p.name, p.dtype, p.shape) for dtype in _ORDER for p in spool.parts[dtype]]
    if len({entry.name for entry in entries}) != len(entries):
        raise InputError(
            f"{path}: the base's tensor names give two parts of the same name",
            code="delta.same_part_names",
        )
    with new_file(path) as temporary:
        with storage_errors(path), temporary.open("wb") as file:
            file.write(header_bytes(entries, _metadata(header)))
            spool.copy_to(file)
        _seal(temporary)


@contextmanager
def named_last(out: Path, *, last: bool) -> Generator[Path]:
    """Yields the file to write a delta to; if `last`, it becomes `out` at the block's end.

    If the block then raises, there is nothing new at `out`, and nothing beside it. The name beside
    it is always the same, so that an interrupted training of the same delta is continued.

    Raises:
        InputError: another process is making this file, or has made it meanwhile.
        StorageError: the file cannot be moved.
    """
    if not last:
        yield out
        return
    beside, replaces = out.with_name(f".{out.name}.unchecked"), out.exists()
    with locked(_lock_of(out)) as mine:
        if not mine or (not replaces and out.exists()):
            raise _written_elsewhere(out)
        try:
            yield beside
            if not replaces and out.exists():
                raise _written_elsewhere(out)
            with storage_errors(out):
                beside.replace(out)
        finally:
            beside.unlink(missing_ok=True)


def _lock_of(out: Path) -> Path:
    """Returns the lock of a file, which is not beside it: a lock stays."""
    name = hashlib.sha256(str(out.absolute()).encode()).hexdigest()
    return ensure_folder(folders().cache / "writing") / f"{name[:32]}.lock"


def _written_elsewhere(out: Path) -> InputError:
    return InputError(
        f"output {str(out)!r}: expected no other process to write it, got one",
        hint="choose another name",
        code="delta.written_elsewhere",
    )


def file_bytes(header: DeltaHeader) -> int:
    """Returns the size of a file with this header and its parts, without writing it."""
    parts = [part for tensor in header.tensors for part in term_parts(tensor)]
    ordered = [part for dtype in _ORDER for part in parts if part.dtype == dtype]
    entries = [Entry(part.name, part.dtype, part.shape) for part in ordered]
    return len(header_bytes(entries, _metadata(header))) + sum(part.nbytes for part in parts)


def replace_header(delta: Delta, header: DeltaHeader) -> Delta:
    """Rewrites a delta file with another header for the same parts, and reloads it."""
    in_order = sorted(delta.parts.items(), key=lambda part: part[1].start)
    entries = [Entry(name, info.dtype, tuple(info.shape)) for name, info in in_order]
    with new_file(delta.path) as temporary:
        with storage_errors(delta.path), temporary.open("wb") as file:
            file.write(header_bytes(entries, _metadata(header)))
            for start in range(delta.file_bytes - delta.payload_bytes, delta.file_bytes, 1 << 20):
                piece = delta.file.read(start, min(delta.file_bytes, start + (1 << 20)))
                file.write(piece.data)
        _seal(temporary)
    return load_delta(delta.path)


def _metadata(header: DeltaHeader) -> dict[str, str]:
    try:
        text = json.dumps(header.content(), separators=(",", ":"), sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise InputError(
            "delta header: expected finite numbers in the recipe", code="delta.not_finite"
        ) from error
    zeros = "0" * DIGEST_LENGTH
    return {"digest": zeros, "format": FORMAT, "version": header.version, "header": text}


def _seal(path: Path) -> None:
    """Computes the digest of a file with zeros in its place, and writes it there."""
    from zoo.core import file_digest

    digest = file_digest(path, zero_at=DIGEST_AT, zero_len=DIGEST_LENGTH)
    with storage_errors(path), path.open("r+b") as file:
        file.seek(DIGEST_AT)
        file.write(digest.encode())
