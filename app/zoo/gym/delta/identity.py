"""Does this base belong to this delta: one hash over the tensors that the delta touches."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from zoo.gym.delta.container import Delta
from zoo.gym.delta.weights import Weights
from zoo.gym.errors import InputError


def identity(weights: Weights, names: Sequence[str]) -> str:
    """Returns the hash over name, type, shape and bytes of the named tensors.

    Remembered for as long as the program runs, by path, size and time of change of the files.
    """
    stamps = tuple((file, *_stamp(file)) for file in weights.files)
    return _hashed(stamps, tuple(names))


def verify_base(delta: Delta, base: Weights, base_id: str | None = None) -> None:
    """Refuses a base that the delta was not made from.

    Args:
        delta: the delta.
        base: the base that was offered.
        base_id: what the offered base is called; by default its folder's name.

    Raises:
        InputError: names both bases.
    """
    offered = base_id or base.source.resolve().name
    told = delta.header.base
    expected = f"{delta.path} belongs to another base: expected {told.id!r} ({told.identity[:12]})"
    hint = f"--base {told.id}" + (f"@{told.revision}" if told.revision else "")
    for tensor in delta.header.tensors:
        if tensor.name not in base.tensors:
            got = f"got {offered!r}, which has no tensor {tensor.name!r}"
            raise InputError(f"{expected}, {got}", hint=hint)
    found = identity(base, [tensor.name for tensor in delta.header.tensors])
    if found != told.identity:
        raise InputError(f"{expected}, got {offered!r} ({found[:12]})", hint=hint)
    for tensor in delta.header.tensors:
        if tensor.shape != base.shape(tensor.name):
            got = f"expected shape {list(base.shape(tensor.name))}, got {list(tensor.shape)}"
            raise InputError(f"{delta.path}: tensor {tensor.name!r}: {got}")


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=16)
def _hashed(stamps: tuple[tuple[Path, int, int], ...], names: tuple[str, ...]) -> str:
    from zoo.core import base_identity

    return base_identity([file for file, _, _ in stamps], names)
