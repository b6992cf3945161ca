"""Verifies that a base belongs to a delta, by one hash over the tensors that the delta touches."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from zoo.gym.delta.file.header import Base
from zoo.gym.delta.file.reader import Delta
from zoo.gym.delta.reading.weights import FLOATS, Weights, open_weights, stored_bytes
from zoo.gym.errors import InputError, NotAvailableError
from zoo.models.resolve import model_of_folder, model_of_text, resolve

_Key: TypeAlias = tuple[tuple[tuple[Path, int, int], ...], tuple[str, ...]]
_known: dict[_Key, str] = {}


def identity(weights: Weights, names: Sequence[str]) -> str:
    """Returns the hash over name, type, shape and bytes of the named tensors.

    Remembered for as long as the program runs, by path, size and time of change of the files.
    """
    from zoo.core import base_identity

    key = _key(weights, names)
    if key not in _known:
        _known[key] = base_identity(weights.files, names)
    return _known[key]


class IdentityHasher:
    """The same hash over tensors that come one by one, in sorted order, while they are at hand."""

    def __init__(self, weights: Weights) -> None:
        """Starts with no tensor of these weights."""
        from zoo.core import IdentityHasher as CoreHasher

        self._weights, self._hasher = weights, CoreHasher()
        self._names: list[str] = []
        self._stamps = _stamps(weights)

    def add(self, name: str) -> None:
        """Adds a tensor."""
        info = self._weights.tensors[name][1]
        self._hasher.add(name, info.dtype, info.shape, stored_bytes(self._weights, name))
        self._names.append(name)

    def finish(self) -> str:
        """Returns the hash, and remembers it.

        Raises:
            InputError: the files were changed meanwhile.
        """
        if _stamps(self._weights) != self._stamps:
            raise InputError(f"{self._weights.source} was changed while it was read")
        found = self._hasher.finish()
        _known[_key(self._weights, self._names)] = found
        return found


def base_name(base: Path, base_id: str | None, revision: str | None) -> tuple[str, str | None]:
    """Returns what a base is called: as the caller says, else by the name that it is known by.

    Raises:
        InputError: the folder is the hub's, or zen-pico, under another name or revision.
    """
    here = model_of_folder(base)
    if base_id is None:
        return (here.id, revision or here.revision) if here else (base.resolve().name, revision)
    told = model_of_text(base_id, revision)
    if here is None:
        return base_id, revision
    right = told is not None and told.id.lower() == here.id.lower()
    if right and told is not None and told.revision and here.revision:
        right = here.revision.startswith(told.revision)
    if not right:
        expected = f"{here.id}@{here.revision}" if here.revision else here.id
        got = f"{base_id}@{revision}" if revision else base_id
        raise InputError(f"base_id: expected {expected!r}, the model in '{base}', got {got!r}")
    return base_id, revision


def check_named_base(told: Base, base: Weights, names: Sequence[str]) -> None:
    """Refuses the name of a model on this machine whose tensors are not the base's.

    Args:
        told: the base as a delta's header will name it.
        base: the base in truth.
        names: of the tensors that the delta touches.

    Raises:
        InputError: the model of that name has other tensors.
    """
    try:
        folder = resolve(
            f"{told.id}@{told.revision}" if told.revision else told.id, offline=True
        ).folder
    except (NotAvailableError, InputError):
        return  # a name of the user's own, or of a model that is not here
    if folder.resolve() == base.source.resolve():
        return
    named = open_weights(folder)
    if not named.tensors.keys() >= set(names) or identity(named, names) != told.identity:
        raise InputError(
            f"base_id: expected the name of the model in '{base.source}', got {told.id!r}, whose "
            f"weights in '{folder}' are others",
            hint="name it as you like, but not as another model",
        )


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
        where = f"{delta.path}: tensor {tensor.name!r}"
        if tensor.shape != base.shape(tensor.name):
            got = f"expected shape {list(base.shape(tensor.name))}, got {list(tensor.shape)}"
            raise InputError(f"{where}: {got}")
        if base.dtype(tensor.name) not in FLOATS:
            expected = f"expected a type of {', '.join(FLOATS)} in the base"
            raise InputError(f"{where}: {expected}, got {base.dtype(tensor.name)!r}")


def _key(weights: Weights, names: Sequence[str]) -> _Key:
    return _stamps(weights), tuple(sorted(names))


def _stamps(weights: Weights) -> tuple[tuple[Path, int, int], ...]:
    found = ((file, file.stat()) for file in weights.files)
    return tuple((file, status.st_size, status.st_mtime_ns) for file, status in found)
