"""Strict reader of GGUF headers, which refuses malformed files with a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zoo.core import _core
from zoo.core.files import OpenFile, lent

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

GgufValue: TypeAlias = "bool | int | float | str | NDArray[Any] | list[GgufValue]"
"""A number, a string, an array of numbers, or a list of strings, arrays or lists."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor according to the header.

    Attributes:
        type: the ggml type of its values: `F32`, `Q4_K`, `BF16` ...
        shape: in NumPy's order, the contiguous dimension last; ggml uses the reverse order.
        start: its first byte, counted from the start of the file.
        stop: one past its last byte, without padding.
    """

    type: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The header of a file.

    Attributes:
        version: the version of the format, 2 or 3.
        alignment: the alignment of tensors in bytes.
        metadata: the values by key, in the order of the file.
        tensors: the tensors by name, in the order of their bytes.
    """

    version: int
    alignment: int
    metadata: dict[str, GgufValue]
    tensors: dict[str, GgufTensor]


def read_gguf_header(file: str | PathLike[str] | OpenFile) -> GgufHeader:
    """Reads and checks the header of a GGUF file; the tensors' own bytes are not read.

    Raises:
        InputError: a malformed file: truncated, version 1 or big-endian, counts or lengths beyond
            the size of the file, duplicate names, types unknown to ggml, tensors that overlap,
            leave gaps or are not aligned ...
        OSError: the file cannot be read.
    """
    version, alignment, pairs, tensors = _core.read_gguf_header(lent(file))
    return GgufHeader(
        version,
        alignment,
        {key: _value(value) for key, value in pairs},
        {
            name: GgufTensor(kind, tuple(reversed(dimensions)), start, stop)
            for name, kind, dimensions, start, stop in tensors
        },
    )


def _value(found: object) -> GgufValue:
    """A value from the core: text, (type, bytes) for a number, a list for an array."""
    if isinstance(found, str):
        return found
    if isinstance(found, tuple):
        value: bool | int | float = _numbers(cast("tuple[str, bytes]", found))[0].item()
        return value
    items = cast("list[object]", found)
    if len(items) == 1 and isinstance(items[0], tuple):
        return _numbers(cast("tuple[str, bytes]", items[0]))
    return [_value(item) for item in items]


def _numbers(found: tuple[str, bytes]) -> NDArray[Any]:
    import numpy as np

    name, content = found
    return np.frombuffer(content, np.dtype(name))
