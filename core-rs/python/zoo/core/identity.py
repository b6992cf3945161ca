"""The hashes that tie a delta to its base and to its own bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.core import _core

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike


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


def file_digest(path: str | PathLike[str], *, zero_at: int, zero_len: int) -> str:
    """Returns 64 hexadecimal digits: BLAKE3 of a file with some of its bytes read as ASCII `0`.

    So a file can carry its own digest, taken with the digest's characters as zeros.

    Args:
        path: the file.
        zero_at: the first byte that counts as `0`.
        zero_len: how many do; 0 for a plain digest.

    Raises:
        InputError: bytes that the file does not have.
        OSError: what the file system answers.
    """
    return _core.file_digest(path, zero_at, zero_len)
