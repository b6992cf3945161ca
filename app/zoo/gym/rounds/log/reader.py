"""Reads a log: its signed head, and the entries, nodes and proofs that the head covers.

A head is a C2SP signed note (tlog-checkpoint): the origin, the size and the root, a blank line, and
a line for each signature. Signatures are Ed25519 over the lines before the blank one. A reader
needs those of the keys that it knows; signatures of other keys are ignored.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.log import tree
from zoo.gym.rounds.log.tree import (
    HASH_BYTES,
    HEIGHT,
    WIDTH,
    entries_in,
    hashes_in,
    subtree,
    tile_name,
    widths,
)
from zoo.gym.rounds.storage.base import NOTE_BYTES

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
            raise InputError(
                f"key name: expected text without blanks and '+', got {self.name!r}",
                code="rounds.key_name",
            )

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

    Raises:
        InputError: it is no note of this log, or a signature under a known name is wrong.
    """
    head, lines = _parsed(note)
    if head.origin != origin:
        raise InputError(
            f"log head: expected one of {origin!r}, got one of {head.origin!r}",
            code="rounds.other_log",
        )
    keys = {(key.name, key.id): key for key in verifiers}
    signatures: dict[NoteKey, bytes] = {}
    for line in lines:
        name, stamp = _signature(line)
        key = keys.get((name, stamp[:_ID_BYTES]))
        if key is None:
            continue
        if key in signatures or not verifiers[key](head.text().encode(), stamp[_ID_BYTES:]):
            raise InputError(
                f"log head: expected a valid signature of {name!r}, got a wrong one",
                code="rounds.bad_signature",
            )
        signatures[key] = stamp[_ID_BYTES:]
    return head, signatures


def _parsed(note: bytes) -> tuple[Head, list[str]]:
    problem = InputError(
        "log head: expected a signed note (C2SP tlog-checkpoint), got other text",
        code="rounds.bad_head",
    )
    try:
        text, _, rest = note[:NOTE_BYTES].decode().partition("\n\n")
        origin, size, root, *extensions = text.split("\n")
        head = Head(origin, int(size), base64.b64decode(root, validate=True))
    except ValueError:
        raise problem from None
    exact = f"{text}\n" == head.text() and not extensions and len(head.root) == HASH_BYTES
    if not (exact and origin and rest.endswith("\n") and len(note) <= NOTE_BYTES):
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
        raise InputError(
            f"log head: expected a signature line, got {line[:60]!r}", code="rounds.bad_head"
        )
    return name, stamp


CHECKPOINT = "log/checkpoint"

Read = Callable[[str], bytes | None]
"""Returns the bytes of a name in a storage, None where there are none."""


def read_head(
    note: bytes | None, origin: str, log_key: NoteKey, verifiers: Mapping[NoteKey, Verify]
) -> tuple[Head, dict[NoteKey, bytes]]:
    """Returns the head of a log and the valid signatures of it.

    Args:
        note: the stored one; None if there is none.

    Raises:
        NotAvailableError: there is no head.
        InputError: it is not a head of this log, signed by its key.
    """
    if note is None:
        raise NotAvailableError(
            f"log of {origin}: expected a signed head, got nothing", code="rounds.no_head"
        )
    head, signatures = read_note(note, origin, verifiers)
    if log_key not in signatures:
        raise InputError(
            f"log head: expected a signature of {log_key.name!r}, got none",
            code="rounds.unsigned_head",
        )
    return head, signatures


class LogReader:
    """The first `size` entries of a log."""

    def __init__(self, read: Read, size: int) -> None:
        self.size = size
        self._read = read
        self._tiles: dict[tuple[int, int], list[bytes]] = {}

    def node(self, level: int, index: int) -> bytes:
        """Returns the hash of a complete subtree from the tile that has its nodes.

        Raises:
            InputError: that tile is missing or has the wrong length.
        """
        tile_level, rest = divmod(level, HEIGHT)
        count = 1 << rest
        first = index * count
        hashes = self._tile(tile_level, first // WIDTH)
        return subtree(hashes[first % WIDTH : first % WIDTH + count])

    def root(self) -> bytes:
        """Returns the root of the entries."""
        return tree.root(self.size, self.node)

    def consistency(self, old: int) -> list[bytes]:
        """Returns the proof that the first `old` entries are a prefix of these."""
        return tree.consistency_proof(old, self.size, self.node)

    def entries(self, first_bundle: int = 0) -> list[bytes]:
        """Returns the entries from those of a bundle on, each checked against its hash.

        Raises:
            InputError: a bundle is missing, or an entry differs from its hash.
        """
        entries: list[bytes] = []
        for index, width in widths(self.size, 0):
            if index >= first_bundle:
                entries += self._bundle(index, width)
        return entries

    def _bundle(self, index: int, width: int) -> list[bytes]:
        name = tile_name("entries", index, width)
        try:
            entries = entries_in(self._bytes(name))
        except ValueError as error:
            raise InputError(
                f"log/{name}: expected entries, got {error}", code="rounds.bad_tile"
            ) from None
        if [tree.leaf_hash(entry) for entry in entries] != self._tile(0, index):
            raise InputError(
                f"log/{name}: expected the entries of their hashes, got others",
                code="rounds.bad_tile",
            )
        return entries

    def _tile(self, level: int, index: int) -> list[bytes]:
        key = (level, index)
        if key not in self._tiles:
            width = min(WIDTH, (self.size >> (HEIGHT * level)) - index * WIDTH)
            name = tile_name(level, index, width)
            hashes = hashes_in(self._bytes(name))
            if len(hashes) != width or any(len(hash_) != tree.HASH_BYTES for hash_ in hashes):
                raise InputError(
                    f"log/{name}: expected {width} hashes, got {len(hashes)}",
                    code="rounds.bad_tile",
                )
            if level and hashes != self._above(level - 1, index * WIDTH, width):
                raise InputError(
                    f"log/{name}: expected the hashes of the tiles below, got others",
                    code="rounds.bad_tile",
                )
            self._tiles[key] = hashes
        return self._tiles[key]

    def _above(self, level: int, first: int, count: int) -> list[bytes]:
        """Returns the hashes of whole tiles: without them a root says nothing about its entries."""
        return [subtree(self._tile(level, index)) for index in range(first, first + count)]

    def _bytes(self, name: str) -> bytes:
        content = self._read(f"log/{name}")
        if content is None:
            raise InputError(
                f"log/{name}: expected a tile of the log, got nothing", code="rounds.tile_missing"
            )
        return content


def open_log(read: Read, head: Head) -> LogReader:
    """Returns a reader of the log under a head.

    Raises:
        InputError: the stored tiles do not have the head's root.
    """
    reader = LogReader(read, head.size)
    if reader.root() != head.root:
        raise InputError(
            f"log of {head.origin}: expected the root of its head, got another",
            code="rounds.other_root",
        )
    return reader
