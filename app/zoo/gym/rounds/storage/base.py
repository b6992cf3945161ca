"""What a storage for the files of a round can do, its addresses and names, and a folder as one.

A folder may be on this machine, a network share, or a USB stick.
"""

import errno
import os
import re
import stat
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from zoo.gym.errors import InputError, StorageError
from zoo.gym.files import new_file, read_errors, read_small, storage_errors
from zoo.gym.http_guard.gate import is_loopback


def is_address(text: str) -> bool:
    """Returns whether a text is an address rather than a path or a name."""
    return "://" in text


def checked_address(address: str) -> str:
    """Returns an address of a round on a server, without a last slash.

    Raises:
        InputError: it is none, has a password in it, or is neither https nor of this machine.
    """
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(
            f"{address!r}: expected https://HOST/rounds/NAME or s3://BUCKET/PREFIX",
            code="rounds.bad_address",
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError(
            f"address of {parts.hostname}: expected no password, query or fragment in it",
            hint=f"zoo-gym round token {parts.scheme}://HOST keeps a token",
            code="rounds.bad_address",
        )
    if any(part in {".", ".."} for part in re.split(r"[/\\]", unquote(parts.path))):
        raise InputError(
            f"{address}: expected the path of a round, got one with '.' or '..'",
            code="rounds.bad_address",
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise InputError(
            f"{address}: expected https for another machine, got http: the token and the weights "
            "would be readable on the way",
            code="rounds.not_https",
        )
    return address.rstrip("/")


ENTRY_BYTES = 65_535
"""The most bytes of an entry of a log: its length is stored in two."""

NOTE_BYTES = 100_000
"""The most bytes of a signed head."""

MOST_BYTES = 16 << 20
"""The most bytes of one file: chunks have 4 MiB, all else is smaller."""

_PART = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_LONGEST = 200


class NoFileError(StorageError):
    """A name has what no file of a round is: a folder, a pipe, a loop of links, too many bytes.

    Whoever may write in a round can put it there, so it says nothing of the storage.
    """


class Storage(Protocol):
    """Named bytes. Names are relative, with parts as in `check_name`."""

    address: str
    """For messages: where this is."""

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a name, None where there are none.

        Raises:
            NoFileError: it is no file, or has more than `MOST_BYTES`.
            StorageError: they cannot be read.
        """
        ...

    def write(self, name: str, content: bytes) -> None:
        """Stores bytes under a new name, durably; the same bytes again are accepted.

        Raises:
            StorageError: they cannot be stored, or others are there.
        """
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Stores a pointer durably: a name with bytes that may change.

        Raises:
            StorageError: it cannot be stored; the old bytes are still there.
        """
        ...

    def size(self, name: str) -> int | None:
        """Returns the number of bytes of a name, None where there is no file."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Returns the names below a folder of names, sorted."""
        ...


def check_size(where: object, content: bytes) -> None:
    """Refuses more bytes than a file of a round has.

    Raises:
        StorageError: they are more than `MOST_BYTES`.
    """
    if len(content) > MOST_BYTES:
        raise StorageError(
            f"{where}: expected at most {MOST_BYTES} bytes, got {len(content)}",
            code="rounds.too_many_bytes",
        )


def check_name(name: str) -> str:
    """Returns a name that is safe as a path on every system.

    Raises:
        InputError: a part is empty, starts with a dot, or has another character than lowercase
            letters, digits, `.`, `_` and `-`.
    """
    parts = name.split("/")
    if len(name) > _LONGEST or not all(_PART.fullmatch(part) for part in parts):
        raise InputError(
            f"name {name[:60]!r}: expected parts of lowercase letters, digits, '.', '_' and '-'",
            code="rounds.bad_name",
        )
    return name


class FileKind(StrEnum):
    """What is stored under a name."""

    MANIFEST = "manifest"
    ENTRY = "entry"
    HEAD = "head"
    TILE = "tile"
    WITNESS = "witness"
    CHUNK = "chunk"


_HEX = "[0-9a-f]{64}"
_FORMS = {
    FileKind.MANIFEST: (r"manifest\.json", ENTRY_BYTES),
    FileKind.ENTRY: (rf"inbox/{_HEX}\.json", ENTRY_BYTES),
    FileKind.HEAD: ("log/checkpoint", NOTE_BYTES),
    FileKind.TILE: (r"log/tile/(entries|\d{1,2})/(x\d{3}/){0,5}\d{3}(\.p/\d{1,3})?", MOST_BYTES),
    FileKind.WITNESS: (f"witness/{_HEX}", NOTE_BYTES),
    FileKind.CHUNK: (rf"chunks/[0-9a-f]{{2}}/{_HEX}", MOST_BYTES),
}
NAMES = "|".join(form for form, _ in _FORMS.values())
"""A regular expression of all names."""

MOST_BYTES_OF = {kind: most for kind, (_, most) in _FORMS.items()}
_PATTERNS = {kind: re.compile(form, re.ASCII) for kind, (form, _) in _FORMS.items()}


def file_kind(name: str) -> FileKind | None:
    """Returns what a name is for, None for a name that no round has."""
    return next((kind for kind, form in _PATTERNS.items() if form.fullmatch(name)), None)


_NOWHERE = {errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
"""What a system says of a link that leads nowhere; Windows has the last."""


class FolderStorage:
    """The files of a round in a folder; each is written beside, synced and renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a file, None where there is none."""
        path = self._path(name)
        try:
            with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                return read_small(path, most_bytes=MOST_BYTES)
        except StorageError as error:
            if self._is_no_file(path, error.__cause__):
                raise NoFileError(error.message, hint=error.hint, code="rounds.no_file") from None
            raise
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a new file; the same bytes again are accepted."""
        if self.size(name) is None:
            self.replace(name, content)
        elif self.read(name) != content:
            raise StorageError(
                f"{self._path(name)}: expected nothing or the same bytes, got others",
                code="rounds.name_taken",
            )

    def replace(self, name: str, content: bytes) -> None:
        """Replaces a file."""
        path = self._path(name)
        check_size(path, content)
        self._refuse_outside(path.parent)
        _make_room(path)
        with new_file(path) as beside, storage_errors(path):
            beside.write_bytes(content)

    def size(self, name: str) -> int | None:
        """Returns the number of bytes of a file, None where there is none."""
        path = self._path(name)
        with read_errors(path), suppress(FileNotFoundError, NotADirectoryError):
            try:
                status = path.stat()
            except OSError as error:
                if self._is_no_file(path, error):
                    return None
                raise
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        return None

    def names(self, prefix: str) -> list[str]:
        """Returns the names of the files below a folder of it, sorted."""
        top = self._path(prefix)
        with read_errors(top):
            files = [path for path in top.rglob("*") if path.is_file()]
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in files
            if not path.name.startswith(".")  # unfinished
        )

    def _refuse_outside(self, folder: Path) -> None:
        """Refuses to write where a link leads out of the round: others may write in its folder."""
        with read_errors(folder):
            target = Path(os.path.realpath(folder))  # unlike `resolve`, takes loops of links
            if target.is_relative_to(os.path.realpath(self.folder)):
                return
        raise StorageError(
            f"{folder}: expected a folder of the round, got a link to {target}",
            hint="remove the link: a round is written in one folder",
            code="rounds.outside_link",
        )

    def _is_no_file(self, path: Path, error: BaseException | None) -> bool:
        """Returns whether a read failed because of what is at the path, not because of the disk."""
        if not isinstance(error, OSError):
            return False
        if error.errno == errno.EFBIG:
            return True
        try:
            return not stat.S_ISREG(path.stat().st_mode)
        except OSError as fault:
            inside = [path, *path.parents][: len(path.relative_to(self.folder).parts)]
            return fault.errno in _NOWHERE and any(map(os.path.islink, inside))

    def _path(self, name: str) -> Path:
        return self.folder / check_name(name)


def _make_room(path: Path) -> None:
    """Removes a pipe, a broken link or the like that has the name of a file of the round."""
    with storage_errors(path), suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            raise StorageError(
                f"{path}: expected a file of the round or nothing, got a folder",
                hint=f"remove the folder, or ask the round's maker to: {path}",
                code="rounds.is_folder",
            )
        if not os.path.isfile(path):  # noqa: PTH113 - `Path.is_file` raises for some links
            path.unlink()
