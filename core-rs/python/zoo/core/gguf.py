"""The header of a GGUF file, read strictly: malformed files are refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zoo.core import _core
from zoo.core.files import OpenFile, lent

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

GgufValue: TypeAlias = "bool | int | float | str | NDArray[Any] | list[GgufValue]"
"""A number, a string, an array of numbers, or a list of strings or of such arrays and lists."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """What a header says of one tensor.

    Attributes:
        type: how its values are stored, by ggml's name: `F32`, `Q4_K`, `BF16` ...
        shape: as NumPy has it, the dimension whose values lie together last; ggml's own order is
            the other way round.
        start: its first byte, counted from the start of the file.
        stop: one past its last byte, without padding.
    """

    type: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says of itself.

    Attributes:
        version: of the format, 2 or 3.
        alignment: to how many bytes tensors are aligned.
        metadata: values by key, in the order of the file.
        tensors: by name, in the order of their bytes.
    """

    version: int
    alignment: int
    metadata: dict[str, GgufValue]
    tensors: dict[str, GgufTensor]


def read_gguf_header(file: str | PathLike[str] | OpenFile) -> GgufHeader:
    """Reads and checks the header of a GGUF file; the tensors' own bytes are not read.

    Raises:
        InputError: a file that is not well-formed: cut short, of version 1 or big-endian, counts or
            lengths that the file has no room for, names that are there twice, types that ggml does
            not have, tensors that overlap, leave a hole or are not aligned ...
        OSError: what the file system answers.
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
    """A value as the core hands it over: text, (type, bytes) for a number, a list for an array."""
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
