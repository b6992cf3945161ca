"""The files: a folder for each base, and in it NAME.safetensors, a low-rank delta, for each user.

The folder of a base is found by the base's known name; that of a base without one by its path.
Only the user's own account can read it.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from zoo.gym.errors import InputError, NotAvailableError, StorageError
from zoo.gym.files import storage_errors
from zoo.gym.files.atomic import move_over, private_path, remove_file, sync_file, sync_folder
from zoo.gym.files.lock import locked
from zoo.gym.paths import PRIVATE_FILE, ensure_folder, folders

if TYPE_CHECKING:
    from zoo.models import Resolved

NAME = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,63}")
"""A variant, in requests and as a file."""

ENDING = ".safetensors"

_WAIT_S = 60.0
"""How long another process may take to rename a file."""


@dataclass(frozen=True)
class Stored:
    """A variant in the store.

    Attributes:
        base: what its base is called here, see `label_of`.
        name: the name of its user.
        file: the delta.
    """

    base: str
    name: str
    file: Path

    @property
    def id(self) -> str:
        """What commands and servers call it, `zen-pico:ann`."""
        return f"{self.base}:{self.name}"


def root() -> Path:
    """Returns the folder of all bases."""
    return folders().data / "variants"


def label_of(base: Path) -> str:
    """Returns what a base is called here: its known name, or its folder's and a digest of its path.

    Args:
        base: the folder of the base.
    """
    from zoo.models.resolve import model_of_folder

    if (known := model_of_folder(base)) is not None:
        return known.id
    path = base.resolve()
    return f"{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def folder_of(base: Path) -> Path:
    """Returns the folder with the variants of a base, which may not exist.

    Args:
        base: the folder of the base.
    """
    return folder_called(label_of(base))


def bases() -> dict[str, os.DirEntry[str]]:
    """Returns the folders of the bases that have one, by what the bases are called here."""
    try:
        with os.scandir(root()) as entries:
            return {unquote(entry.name): entry for entry in entries if entry.is_dir()}
    except FileNotFoundError:
        return {}


def folder_called(label: str) -> Path:
    """Returns the folder of a base by what the base is called here; any text is safe."""
    return root() / quote(label, safe="").replace(".", "%2E", 1 if label.startswith(".") else 0)


def check_name(name: str) -> None:
    """Refuses a name that no variant can have.

    Raises:
        InputError: it is one.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            "user: expected 1 to 64 of a-z, 0-9, '.', '_', '-', the first of them no '.', got "
            f"{name!r:.100}",
            code="variants.bad_name",
        )


def stored_of(base: Path, name: str) -> Stored:
    """Returns where the variant of a user is, which may not exist.

    Raises:
        InputError: no variant can have that name.
    """
    check_name(name)
    label = label_of(base)
    return Stored(label, name, folder_called(label) / f"{name}{ENDING}")


def find(text: str) -> Stored:
    """Returns the variant that a user named.

    Args:
        text: `NAME` or `BASE:NAME`.

    Raises:
        NotAvailableError: there is none.
        InputError: several bases have one of that name.
    """
    label, colon, name = text.rpartition(":")
    here = [known for known in sorted(bases()) if not colon or known == label]
    files = [
        (known, folder_called(known) / f"{name}{ENDING}") for known in here if NAME.fullmatch(name)
    ]
    matches = [Stored(known, name, file) for known, file in files if file.is_file()]
    if not matches:
        raise NotAvailableError(
            f"no variant {text!r:.100}: expected the name of one, or BASE:NAME",
            hint="list them: zoo-gym variants list",
            code="variants.no_such_variant",
        )
    if len(matches) > 1:
        raise InputError(
            f"variant {name!r} is of several bases: expected one of "
            f"{', '.join(match.id for match in matches[:5])}",
            code="variants.ambiguous",
        )
    return matches[0]


def require_free(stored: Stored, *, replace: bool) -> None:
    """Refuses a name that is taken.

    Args:
        stored: where the variant would be.
        replace: whether it may be.

    Raises:
        InputError: it is.
    """
    if stored.file.exists() and not replace:
        raise InputError(
            f"variant {stored.id!r}: already exists",
            hint="choose another name, or replace it with --replace",
            code="variants.taken",
        )


def put(file: Path, base: "Resolved", name: str, *, replace: bool = False) -> Stored:
    """Copies a delta into the store; a server that has it goes on with the old one until asked.

    Args:
        file: the delta.
        base: its base.
        name: the name of its user.
        replace: whether a variant of that name is replaced.

    Raises:
        InputError: it is no low-rank delta, or of another base, or the name is not free.
        StorageError: the file cannot be written.
    """
    from zoo.gym.delta.file.reader import load_delta
    from zoo.gym.delta.reading.identity import verify_base
    from zoo.gym.delta.reading.weights import open_weights

    stored = stored_of(base.folder, name)
    require_free(stored, replace=replace)
    delta = load_delta(file)
    if delta.header.form != "lowrank":
        raise InputError(
            f"{file}: expected a low-rank delta, got form {delta.header.form}",
            hint="serve it from a folder of deltas: zoo-gym serve --model MODEL --variants FOLDER",
            code="variants.not_low_rank",
        )
    verify_base(delta, open_weights(base.folder), base.id)
    ensure_folder(stored.file.parent)
    beside = private_path(stored.file)
    with storage_errors(stored.file):
        try:
            shutil.copyfile(file, beside)
            beside.chmod(PRIVATE_FILE)
            sync_file(beside)
            with _writing(stored.base):
                require_free(stored, replace=replace)
                move_over(beside, stored.file)
                sync_folder(stored.file.parent)
        finally:
            beside.unlink(missing_ok=True)
    return stored


def rename(stored: Stored, name: str) -> Stored:
    """Gives a variant another name; the token for it ends.

    Raises:
        InputError: the name is not free, or no variant can have it.
        StorageError: the file cannot be renamed.
    """
    check_name(name)
    new = Stored(stored.base, name, stored.file.with_name(f"{name}{ENDING}"))
    with _writing(stored.base), storage_errors(new.file):
        require_free(new, replace=False)
        token_file(stored).unlink(missing_ok=True)
        move_over(stored.file, new.file)
    return new


def remove(stored: Stored) -> None:
    """Deletes a variant, and the token for it.

    Raises:
        StorageError: a file cannot be removed.
    """
    token = token_file(stored)
    with _writing(stored.base), storage_errors(stored.file):
        token.unlink(missing_ok=True)  # first: the next variant of this name is another user's
        remove_file(stored.file)


def token_file(stored: Stored) -> Path:
    """Returns the file of the token with which a server may be asked for a variant alone."""
    return folders().data / "serve.tokens" / folder_called(stored.base).name / f"{stored.name}.txt"


@contextmanager
def _writing(label: str) -> Generator[None]:
    """Lets one process at a time look at the names of a base and change them."""
    with locked(folder_called(label) / ".lock", wait_s=_WAIT_S) as held:
        if not held:
            raise StorageError(
                f"variants of {label!r}: another process changes them for over {_WAIT_S:g} s",
                code="variants.busy",
            )
        yield


def files_in(folder: Path | None) -> dict[str, Path]:
    """Returns the deltas and adapters in a folder of variants by name; other files are none."""
    files = [] if folder is None else sorted(folder.glob("*"))
    variants = [file for file in files if file.suffix == ENDING or file.is_dir()]
    names = {file.name.removesuffix(ENDING): file for file in variants}
    return {name: file for name, file in names.items() if NAME.fullmatch(name)}
