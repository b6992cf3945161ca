"""The hashes that bind a delta to its base and to its own bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.core import _core
from zoo.core.arrays import check_array
from zoo.core.files import OpenFile, lent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import numpy as np
    from numpy.typing import NDArray


def base_identity(files: Sequence[str | PathLike[str]], names: Sequence[str]) -> str:
    """Returns 64 hexadecimal digits: BLAKE3 over the named tensors of a model.

    For each name, in the order of its UTF-8 bytes: the name's length and the name, the dtype's
    length and the dtype as in the file (`BF16`), the number of dimensions and each of them, the
    number of bytes and the bytes as stored. Lengths, numbers and dimensions are unsigned 64-bit
    integers, little endian. How the tensors are split into files makes no difference. Reads all
    bytes of the given tensors: callers should cache the result.

    Args:
        files: the model's safetensors files.
        names: the tensors; one given twice counts once.

    Raises:
        InputError: no names, a name that is in no file or in several, or a malformed file.
        OSError: the file cannot be read.
    """
    return _core.base_identity(files, names)


def file_digest(file: str | PathLike[str] | OpenFile, *, zero_at: int, zero_len: int) -> str:
    """Returns 64 hexadecimal digits: BLAKE3 of a file with some of its bytes read as ASCII `0`.

    So a file can contain its own digest, computed with the digest's characters as zeros.

    Args:
        file: a path or an open file.
        zero_at: the first byte that counts as `0`.
        zero_len: the number of such bytes; 0 for a plain digest.

    Raises:
        InputError: a range outside the file.
        OSError: the file cannot be read.
    """
    return _core.file_digest(lent(file), zero_at, zero_len)


def digest(data: bytes | NDArray[np.uint8]) -> str:
    """Returns 64 hexadecimal digits: BLAKE3 of bytes in memory.

    Raises:
        TypeError: an array that is not of bytes.
        ValueError: memory that cannot be borrowed.
    """
    if not isinstance(data, bytes):
        check_array("data", data, "uint8", ndim=1)
    return _core.digest(data)


class IdentityHasher:
    """Computes `base_identity` incrementally, tensor by tensor.

    So a large model that is read for another purpose is read only once. Not thread-safe.
    """

    def __init__(self) -> None:
        """Starts without tensors."""
        self._hasher = _core.IdentityHasher()

    def add(self, name: str, dtype: str, shape: Sequence[int], data: NDArray[np.uint8]) -> None:
        """Adds one tensor; the names must come in the order of their UTF-8 bytes.

        Args:
            name: the tensor's name.
            dtype: its type as in the file: `BF16`.
            shape: its dimensions.
            data: its bytes as stored, [n], contiguous.

        Raises:
            InputError: a name out of order.
            TypeError: not uint8.
        """
        check_array("data", data, "uint8", ndim=1)
        self._hasher.add(name, dtype, shape, data)

    def finish(self) -> str:
        """Returns the identity of the tensors added so far, 64 hexadecimal digits.

        Raises:
            InputError: nothing was added.
        """
        return self._hasher.finish()
