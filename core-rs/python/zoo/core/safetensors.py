"""The header of a safetensors file, read strictly: malformed files are refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.core import _core
from zoo.core.files import OpenFile, lent

if TYPE_CHECKING:
    from os import PathLike


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a header says of one tensor.

    Attributes:
        dtype: the type as the file has it: `F32`, `BF16`, `U8` ...
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
    """What a file says of itself.

    Attributes:
        tensors: by name, in the order of their bytes.
        metadata: free text by key.
    """

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]


def read_header(file: str | PathLike[str] | OpenFile, *, finite: bool = False) -> Header:
    """Reads and checks the header of a safetensors file.

    Stricter than the format's own library, which takes names that are there twice, further fields,
    names with `..` or NUL or of a megabyte, a tensor without bytes anywhere, a header that starts
    with a space, a million tensors, metadata of 50 MB and NaN.

    Args:
        file: a path, or a file that is open.
        finite: also read the tensors and refuse NaN and infinities in them.

    Raises:
        InputError: a file that is not well-formed: cut short, a git LFS pointer, no JSON, names
            that are there twice, tensors that overlap or leave a hole, sizes that disagree ...
        OSError: what the file system answers.
    """
    tensors, metadata = _core.read_header(lent(file), finite)
    infos = {
        name: TensorInfo(dtype, tuple(shape), start, stop)
        for name, dtype, shape, start, stop in tensors
    }
    return Header(infos, metadata)
