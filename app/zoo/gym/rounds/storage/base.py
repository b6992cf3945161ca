"""What a storage for the files of a round can do, and which addresses and names there are."""

import re
from enum import StrEnum
from typing import Protocol
from urllib.parse import unquote, urlsplit

from zoo.gym.errors import InputError, StorageError
from zoo.gym.http_guard.gate import is_loopback


def is_address(text: str) -> bool:
    """Says whether a text is an address rather than a path or a name."""
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
        """Stores a pointer durably: a name whose bytes may change.

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
