"""The hashes that tie a delta to its base and to its own bytes."""

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

    For each name, in the order of the UTF-8 bytes: the name's length and the name, the dtype's
    length and the dtype as the file has it (`BF16`), the number of dimensions and each of them, the
    number of bytes and the bytes as stored. Lengths, numbers and dimensions are unsigned 64-bit
    integers, little endian. How the tensors are spread over files makes no difference. Reads all
    the bytes of the named tensors: callers keep the result.

    Args:
        files: the model's safetensors files.
        names: the tensors; one given twice counts once.

    Raises:
        InputError: no name, a name that no file or more than one file holds, a malformed file.
        OSError: what the file system answers.
    """
    return _core.base_identity(files, names)


def file_digest(file: str | PathLike[str] | OpenFile, *, zero_at: int, zero_len: int) -> str:
    """Returns 64 hexadecimal digits: BLAKE3 of a file with some of its bytes read as ASCII `0`.

    So a file can carry its own digest, taken with the digest's characters as zeros.

    Args:
        file: a path, or a file that is open.
        zero_at: the first byte that counts as `0`.
        zero_len: how many do; 0 for a plain digest.

    Raises:
        InputError: bytes that the file does not have.
        OSError: what the file system answers.
    """
    return _core.file_digest(lent(file), zero_at, zero_len)


class IdentityHasher:
    """`base_identity` over tensors that come one by one, while they are at hand for something else.

    So a large model is read once. Not to be used from two threads at the same time.
    """

    def __init__(self) -> None:
        """Starts with no tensor."""
        self._hasher = _core.IdentityHasher()

    def add(self, name: str, dtype: str, shape: Sequence[int], data: NDArray[np.uint8]) -> None:
        """Adds one tensor; the names must come in the order of their UTF-8 bytes.

        Args:
            name: the tensor's name.
            dtype: its type as the file has it: `BF16`.
            shape: its dimensions.
            data: its bytes as stored, [n], contiguous.

        Raises:
            InputError: a name out of order.
            TypeError: not uint8.
        """
        check_array("data", data, "uint8", ndim=1)
        self._hasher.add(name, dtype, shape, data)

    def finish(self) -> str:
        """Returns the identity of what was added so far, 64 hexadecimal digits.

        Raises:
            InputError: nothing was added.
        """
        return self._hasher.finish()
