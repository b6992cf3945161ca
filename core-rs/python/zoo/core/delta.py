"""Our delta files, read strictly: a file that contradicts itself is refused in a sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo.core import _core
from zoo.core.errors import InputError
from zoo.core.files import OpenFile, lent
from zoo.core.safetensors import TensorInfo

if TYPE_CHECKING:
    from os import PathLike


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A delta file that was found right.

    Attributes:
        digest: of the whole file, 64 hexadecimal digits.
        header: what `docs/reference/delta-format.md` calls the header, as JSON has it.
        parts: by name, in the order of their bytes.
    """

    digest: str
    header: dict[str, Any]
    parts: dict[str, TensorInfo]


def read_delta(file: str | PathLike[str] | OpenFile) -> DeltaFile:
    """Reads and checks a delta file, version 1, all of its bytes.

    Raises:
        InputError: no safetensors file, no delta, another version, damaged, a field that is absent,
            unknown or wrong, a part that is missing, too many or of another type or shape than its
            term calls for, NaN or infinities in a part of floats, ternary bytes of no five digits,
            places that are not as many as their values or lie beyond their tensor, signs outside
            their mask.
        OSError: what the file system answers.
    """
    digest, text, tensors = _core.read_delta(lent(file))
    try:
        header = json.loads(text)
    except ValueError as error:  # a number of thousands of digits in the recipe
        message = f"header: expected JSON that Python reads, got {error}"
        raise InputError(message) from error
    parts = {
        name: TensorInfo(dtype, tuple(shape), start, stop)
        for name, dtype, shape, start, stop in tensors
    }
    return DeltaFile(digest, header, parts)
