"""Signed heads: what a log, and each witness of it, says of its size and root.

A head is a C2SP signed note (tlog-checkpoint): the origin, the size and the root, a blank line, and
a line for each signature. Signatures are Ed25519 over the lines before the blank one. A reader
needs those of the keys that it knows; signatures of other keys are ignored.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from zoo.gym.errors import InputError
from zoo.gym.rounds.log.tree import HASH_BYTES

MOST_BYTES = 100_000
_ED25519 = b"\x01"
_ID_BYTES, _SIGNATURE_BYTES = 4, 64

Verify = Callable[[bytes, bytes], bool]
"""Says whether a signature (second) is that of a message (first)."""


@dataclass(frozen=True)
class Head:
    """What is signed: `size` entries of the log named `origin` have the Merkle root `root`."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """Returns the lines that are signed, each with its end."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


@dataclass(frozen=True)
class NoteKey:
    """The name and public key under which a signature stands in a note."""

    name: str
    public: bytes

    def __post_init__(self) -> None:
        if not self.name or any(char.isspace() or char == "+" for char in self.name):
            raise InputError(f"key name: expected text without blanks and '+', got {self.name!r}")

    @property
    def id(self) -> bytes:
        """The four bytes that a signature line starts with."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public
        return sha256(named).digest()[:_ID_BYTES]


def signed_note(head: Head, signatures: Mapping[NoteKey, bytes]) -> bytes:
    """Returns the note of a head with the given signatures of its text."""
    lines = [
        f"\u2014 {key.name} {base64.b64encode(key.id + signature).decode()}\n"
        for key, signature in signatures.items()
    ]
    return f"{head.text()}\n{''.join(lines)}".encode()


def read_note(
    note: bytes, origin: str, verifiers: Mapping[NoteKey, Verify]
) -> tuple[Head, dict[NoteKey, bytes]]:
    """Returns the head in a note and its valid signatures by known keys.

    Args:
        note: the bytes of the note.
        origin: the log that it must be a head of.
        verifiers: the known keys.

    Raises:
        InputError: it is no note of this log, or a signature under a known name is wrong.
    """
    head, lines = _parsed(note)
    if head.origin != origin:
        raise InputError(f"log head: expected one of {origin!r}, got one of {head.origin!r}")
    known = {(key.name, key.id): key for key in verifiers}
    found: dict[NoteKey, bytes] = {}
    for line in lines:
        name, stamp = _signature(line)
        key = known.get((name, stamp[:_ID_BYTES]))
        if key is None:
            continue
        if key in found or not verifiers[key](head.text().encode(), stamp[_ID_BYTES:]):
            raise InputError(f"log head: expected a valid signature of {name!r}, got a wrong one")
        found[key] = stamp[_ID_BYTES:]
    return head, found


def _parsed(note: bytes) -> tuple[Head, list[str]]:
    problem = InputError("log head: expected a signed note (C2SP tlog-checkpoint), got other text")
    try:
        text, _, rest = note[:MOST_BYTES].decode().partition("\n\n")
        origin, size, root, *extensions = text.split("\n")
        head = Head(origin, int(size), base64.b64decode(root, validate=True))
    except ValueError:
        raise problem from None
    exact = f"{text}\n" == head.text() and not extensions and len(head.root) == HASH_BYTES
    if not (exact and origin and rest.endswith("\n") and len(note) <= MOST_BYTES):
        raise problem
    return head, rest[:-1].split("\n")


def _signature(line: str) -> tuple[str, bytes]:
    parts = line.split(" ")
    try:
        dash, name, encoded = parts
        stamp = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        dash, name, encoded, stamp = "", "", "", b""
    exact = base64.b64encode(stamp).decode() == encoded  # unused bits are zeros
    if dash != "\u2014" or len(stamp) != _ID_BYTES + _SIGNATURE_BYTES or not exact:
        raise InputError(f"log head: expected a signature line, got {line[:60]!r}")
    return name, stamp
