"""Verifies that a base belongs to a delta: its tensors and the settings of its config.

The tensors that a delta lists have one hash, in every file; those that it leaves as they are have
another, which older files lack, as they lack the settings.
"""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from zoo.gym.delta.file.header import ROUND_TOOL, Base, WholeBase
from zoo.gym.delta.file.reader import Delta
from zoo.gym.delta.reading.weights import (
    CONSTANTS,
    FLOATS,
    Weights,
    is_tied,
    open_weights,
    own_tensors,
    stored_bytes,
)
from zoo.gym.errors import GymWarning, InputError, NotAvailableError
from zoo.models.folder import read_config
from zoo.models.forward_settings import differing, forward_settings
from zoo.models.resolve import model_of_folder, model_of_text, resolve
from zoo.models.tied_head import HEAD

_Key: TypeAlias = tuple[tuple[tuple[Path, int, int], ...], tuple[str, ...]]
_known: dict[_Key, str] = {}


def identity(weights: Weights, names: Sequence[str]) -> str:
    """Returns the hash of name, type, shape and bytes of some tensors.

    It is cached while the program runs, by path, size and modification time of the files.
    """
    from zoo.core import base_identity

    key = _key(weights, names)
    if key not in _known:
        _known[key] = base_identity(weights.files, names)
    return _known[key]


class IdentityHasher:
    """Computes the same hash incrementally, from tensors added in sorted order."""

    def __init__(self, weights: Weights) -> None:
        """Starts a hash of tensors of `weights`."""
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
        """Returns the hash, and caches it.

        Raises:
            InputError: the files have changed since the start.
        """
        if _stamps(self._weights) != self._stamps:
            raise InputError(
                f"{self._weights.source} was changed while it was read",
                code="delta.changed_while_read",
            )
        digest = self._hasher.finish()
        _known[_key(self._weights, self._names)] = digest
        return digest


def whole_base(weights: Weights, listed: Iterable[str]) -> WholeBase:
    """Returns what a base has besides the tensors that a delta lists."""
    return WholeBase(untouched=_untouched(weights, listed), settings=_settings(weights))


def _untouched(weights: Weights, listed: Iterable[str]) -> str:
    """Returns the hash of all other tensors: a tied head once, and no constants."""
    from zoo.core import digest

    rest = own_tensors(weights, tied=is_tied(weights)) - set(listed)
    names = sorted(name for name in rest if not name.endswith(CONSTANTS))
    return identity(weights, names) if names else digest(b"")


def _settings(weights: Weights) -> dict[str, Any]:
    settings = forward_settings(read_config(weights.source))
    implied = HEAD not in weights.tensors or is_tied(weights)
    return {"tie_word_embeddings": implied} | settings


def base_name(base: Path, base_id: str | None, revision: str | None) -> tuple[str, str | None]:
    """Returns the name and revision of a base: as given, else as known from its folder.

    Raises:
        InputError: the folder is known (from the hub, or zen-pico) by another name or revision.
    """
    here = model_of_folder(base)
    if base_id is None:
        return (here.id, revision or here.revision) if here else (base.resolve().name, revision)
    stated = model_of_text(base_id, revision)
    if here is None:
        return base_id, revision
    right = stated is not None and stated.id.lower() == here.id.lower()
    if right and stated is not None and stated.revision and here.revision:
        right = here.revision.startswith(stated.revision)
    if not right:
        expected = f"{here.id}@{here.revision}" if here.revision else here.id
        got = f"{base_id}@{revision}" if revision else base_id
        raise InputError(
            f"base_id: expected {expected!r}, the model in '{base}', got {got!r}",
            code="delta.wrong_base_name",
        )
    return base_id, revision


def check_named_base(stated: Base, base: Weights, names: Sequence[str]) -> None:
    """Refuses a base name if the model of that name on this machine has other tensors.

    Args:
        stated: the base as in the delta's header.
        base: the actual base.
        names: the tensors in the delta.

    Raises:
        InputError: the model of that name has other tensors.
    """
    try:
        folder = resolve(
            f"{stated.id}@{stated.revision}" if stated.revision else stated.id, offline=True
        ).folder
    except (NotAvailableError, InputError):
        return  # a user's own name, or that of a model not on this machine
    if folder.resolve() == base.source.resolve():
        return
    named = open_weights(folder)
    if not named.tensors.keys() >= set(names) or identity(named, names) != stated.identity:
        raise InputError(
            f"base_id: expected the name of the model in '{base.source}', got {stated.id!r}, whose "
            f"weights in '{folder}' differ",
            hint="choose any name but that of another model",
            code="delta.wrong_base_name",
        )


def verify_base(
    delta: Delta, base: Weights, base_id: str | None = None, *, force: bool = False
) -> str | None:
    """Refuses a base that the delta was not made from.

    Args:
        delta: the delta.
        base: the given base.
        base_id: its name in error messages; by default its folder's name.
        force: accept other settings and other tensors that the delta does not list.

    Returns:
        How the base differs, where `force` accepts it; otherwise None.

    Raises:
        InputError: the base does not match; the message has both names.

    Warns:
        GymWarning: the delta is an older one, which records only the tensors that it lists.
    """
    named = base_id or base.source.resolve().name
    stated = delta.header.base
    name = f"{stated.id!r} ({stated.identity[:12]})"
    expected = f"{delta.path} belongs to another base: expected {name}"
    hint = f"--base {stated.id}" + (f"@{stated.revision}" if stated.revision else "")
    for tensor in delta.header.tensors:
        if tensor.name not in base.tensors:
            got = f"got {named!r}, which has no tensor {tensor.name!r}"
            raise InputError(f"{expected}, {got}", hint=hint, code="delta.wrong_base")
    digest = identity(base, [tensor.name for tensor in delta.header.tensors])
    if digest != stated.identity:
        raise InputError(
            f"{expected}, got {named!r} ({digest[:12]})", hint=hint, code="delta.wrong_base"
        )
    for tensor in delta.header.tensors:
        where = f"{delta.path}: tensor {tensor.name!r}"
        if tensor.shape != base.shape(tensor.name):
            got = f"expected shape {list(base.shape(tensor.name))}, got {list(tensor.shape)}"
            raise InputError(f"{where}: {got}", code="delta.wrong_base")
        if base.dtype(tensor.name) not in FLOATS:
            types = f"expected a type of {', '.join(FLOATS)} in the base"
            raise InputError(
                f"{where}: {types}, got {base.dtype(tensor.name)!r}", code="delta.wrong_base"
            )
    difference = _other_rest(delta, base)
    if difference is not None and not force:
        hint += "; on this base all the same: zoo-gym delta apply --force"
        raise InputError(
            f"{expected}, got {named!r}, whose {difference}", hint=hint, code="delta.wrong_base"
        )
    return difference


def _other_rest(delta: Delta, base: Weights) -> str | None:
    """Returns how the rest of a base differs from the recorded one, None if it does not."""
    recorded = delta.header.whole_base
    if recorded is None:
        if delta.header.tool != ROUND_TOOL:
            _warn_of_older_file(delta)
        return None
    settings = _settings(base)
    changes = [
        f"{name!r}: expected {recorded.settings.get(name)!r:.80}, got {settings.get(name)!r:.80}"
        for name in differing(recorded.settings, settings)
    ]
    if changes:
        return f"config differs: {'; '.join(changes[:3])}"
    untouched = _untouched(base, [tensor.name for tensor in delta.header.tensors])
    if untouched != recorded.untouched:
        hashes = f"expected {recorded.untouched[:12]}, got {untouched[:12]}"
        return f"tensors that the delta leaves as they are differ: {hashes}"
    return None


def _warn_of_older_file(delta: Delta) -> None:
    warnings.warn(
        f"{delta.path}: this delta does not record the config of its base, nor the tensors that it "
        "leaves as they are: that they are the same was not checked",
        GymWarning,
        stacklevel=4,
    )


def _key(weights: Weights, names: Sequence[str]) -> _Key:
    return _stamps(weights), tuple(sorted(names))


def _stamps(weights: Weights) -> tuple[tuple[Path, int, int], ...]:
    stats = ((file, file.stat()) for file in weights.files)
    return tuple((file, status.st_size, status.st_mtime_ns) for file, status in stats)
