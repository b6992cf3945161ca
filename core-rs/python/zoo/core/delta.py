"""Strict reader of our delta files, which refuses inconsistent files with a message."""

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
    """A validated delta file.

    Attributes:
        digest: the digest of the whole file, 64 hexadecimal digits.
        header: the header of `docs/reference/delta-format.md`, parsed as JSON.
        parts: the parts by name, in the order of their bytes.
    """

    digest: str
    header: dict[str, Any]
    parts: dict[str, TensorInfo]


def read_delta(file: str | PathLike[str] | OpenFile) -> DeltaFile:
    """Reads and checks all bytes of a delta file of version 1.

    Raises:
        InputError: not a safetensors file, not a delta, another version, damaged, a missing,
            unknown or wrong field, a part that is missing, unexpected or of the wrong type or
            shape, NaN or infinities in a floating-point part, bytes that are not five ternary
            digits, sparse positions that do not match their values or lie outside their tensor, or
            signs outside their mask.
        OSError: the file cannot be read.
    """
    digest, text, tensors = _core.read_delta(lent(file))
    try:
        header = json.loads(text)
    except ValueError as error:  # a number with thousands of digits in the recipe
        message = f"header: expected JSON that Python reads, got {error}"
        raise InputError(message, code="core.bad_header") from error
    parts = {
        name: TensorInfo(dtype, tuple(shape), start, stop)
        for name, dtype, shape, start, stop in tensors
    }
    return DeltaFile(digest, header, parts)
