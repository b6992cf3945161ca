"""Strict reader of safetensors headers, which refuses malformed files with a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.core import _core
from zoo.core.files import OpenFile, lent

if TYPE_CHECKING:
    from os import PathLike


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor according to the header.

    Attributes:
        dtype: the type as in the file: `F32`, `BF16`, `U8` ...
        shape: empty for a scalar.
        start: its first byte, counted from the start of the file.
        stop: one past its last byte.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file.

    Attributes:
        tensors: the tensors by name, in the order of their bytes.
        metadata: free text by key.
    """

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]


def read_header(file: str | PathLike[str] | OpenFile, *, finite: bool = False) -> Header:
    """Reads and checks the header of a safetensors file.

    Stricter than the format's own library, which accepts duplicate names, extra fields, names with
    `..` or NUL or of a megabyte, tensors without bytes anywhere, a header that starts with a space,
    a million tensors, metadata of 50 MB and NaN.

    Args:
        file: a path or an open file.
        finite: also read the tensors and refuse NaN and infinities in them.

    Raises:
        InputError: a malformed file: truncated, a Git LFS pointer, not JSON, duplicate names,
            tensors that overlap or leave gaps, inconsistent sizes ...
        OSError: the file cannot be read.
    """
    tensors, metadata = _core.read_header(lent(file), finite)
    infos = {
        name: TensorInfo(dtype, tuple(shape), start, stop)
        for name, dtype, shape, start, stop in tensors
    }
    return Header(infos, metadata)
