"""Writes safetensors files deterministically.

The library's own writer orders the metadata by a random hash, and needs all tensors in memory.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.files import storage_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
