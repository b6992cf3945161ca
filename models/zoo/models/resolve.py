"""From what a user writes for a model to the folder that holds it.

In order: the built-in zen-pico, a folder, the Hugging Face cache, and only after a yes the hub.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from zoo.core.errors import InputError, NotAvailableError
from zoo.models import hub
from zoo.models.checkpoint_files import checkpoint_files
from zoo.models.folder import read_object
from zoo.models.hub import Confirm
from zoo.models.names import Name, parse_name
from zoo.models.registry import PICO

_SNAPSHOT = re.compile(r"models--(?P<org>.+)--(?P<name>.+)/snapshots/(?P<revision>[0-9a-f]{40})$")


@dataclass(frozen=True)
class Resolved:
    """A model that is on this machine.

    Attributes:
        name: what the user wrote.
        id: the hub's id, `zen-pico`, or the name of a folder.
        revision: the commit, where one is known.
        folder: the model folder.
        notice: a sentence for the user when `id` is not what was written.
    """

    name: str
    id: str
    revision: str | None
    folder: Path
    notice: str | None = None


def resolve(
    name: str | os.PathLike[str],
    *,
    offline: bool = False,
    confirm: Confirm | None = None,
    token: str | None = None,
) -> Resolved:
    """Finds the model that `name` means, fetching it only after a yes.

    Args:
        name: an alias, a published name, `org/name`, each with an `@revision` or not, or a folder;
            a path of Python's is always a folder.
        offline: never ask the hub; the environment's `HF_HUB_OFFLINE` says the same.
        confirm: asked with the id and the bytes to download; None is a no.
        token: access token of the hub; by default the saved one.

    Raises:
        NotAvailableError: unknown, absent while offline, refused by the user, or gated.
        InputError: neither text nor a path, a folder without loadable weights, or one with
            a damaged config.
        DoesNotFitError: the disk is too small for the download.
    """
    if isinstance(name, os.PathLike):
        return _resolve_folder(os.fspath(name))
    _require_text(name)
    if is_path(name):
        return _resolve_folder(name)
    parsed = parse_name(name, hub.cached_ids())
    if parsed.id == PICO:
        return Resolved(name, PICO, None, pico_folder(), parsed.notice)
    folder = hub.find_cached(parsed)
    if folder is None:
        if offline or hub.is_offline():
            raise _absent_offline(parsed)
        folder = hub.fetch(parsed, confirm, token)
    checkpoint_files(folder)
    return Resolved(name, parsed.id, folder.name, folder, parsed.notice)


def model_of_folder(folder: Path) -> Name | None:
    """Returns which known model a folder holds: zen-pico, or the hub's as its cache names it."""
    if folder.resolve() == pico_folder().resolve():
        return Name(PICO)
    found = _SNAPSHOT.search(folder.absolute().as_posix())
    return Name(f"{found['org']}/{found['name']}", found["revision"]) if found else None


def model_of_text(text: object, revision: object = None) -> Name | None:
    """Returns which known model a file's words mean; None for a folder without a known one."""
    if not isinstance(text, str) or not text:
        return None
    if is_path(text):
        return model_of_folder(Path(text).expanduser())
    try:
        name = parse_name(text)
    except NotAvailableError:
        return None
    given = revision if isinstance(revision, str) and revision else None
    return Name(name.id, name.revision or given)


def is_path(name: str) -> bool:
    """Returns True when `name` is meant as a path: it looks like one, or a model is there."""
    separators = {"/", os.sep, os.altsep or os.sep}
    if name.startswith(("~", ".", *separators)) or Path(name).is_absolute():
        return True
    return (Path(name) / "config.json").is_file() or Path(name).is_file()


def pico_folder() -> Path:
    """Returns the folder of the built-in model."""
    return Path(__file__).parent / "pico"


def _require_text(name: object) -> None:
    if not isinstance(name, str):
        kind = type(name).__name__
        raise InputError(f"model: expected a name or a folder, got a value of type {kind}")


def _resolve_folder(name: str) -> Resolved:
    folder = Path(name).expanduser()
    if folder.is_file():
        raise NotAvailableError(f"no such model folder: expected a folder, got the file '{name}'")
    checkpoint_files(folder)
    if not (folder / "config.json").is_file():
        raise InputError(f"no model in '{name}': expected a 'config.json' beside the weights")
    read_object(folder / "config.json")
    snapshot = _SNAPSHOT.search(folder.absolute().as_posix())
    if snapshot:
        return Resolved(name, f"{snapshot['org']}/{snapshot['name']}", snapshot["revision"], folder)
    return Resolved(name, folder.resolve().name, None, folder)


def _absent_offline(name: Name) -> NotAvailableError:
    state = "is not on this machine"
    if name.id in hub.cached_ids():
        wanted = f"revision '{name.revision}'" if name.revision else "a whole copy"
        state = f"is in the cache without {wanted}"
    msg = f"model '{name.id}' {state}, and the hub is not asked while offline"
    return NotAvailableError(msg, hint="unset --offline and HF_HUB_OFFLINE, or use zen-pico")
