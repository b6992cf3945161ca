"""Reads a log: its signed head, and the entries, nodes and proofs that the head covers.

A head is a C2SP signed note (tlog-checkpoint): the origin, the size and the root, a blank line, and
a line for each signature. Signatures are Ed25519 over the lines before the blank one. A reader
needs those of the keys that it knows; signatures of other keys are ignored.

Hashes and consistency proofs follow RFC 6962, section 2.1.2, verification RFC 9162, section
2.1.4.2; SHA-256 throughout. A *node* is the hash of a complete subtree: node (level, index) covers
the `2**level` leaves from `index * 2**level` on. They are stored in tiles of 256, laid out as in
C2SP's tlog-tiles: tile (level, index) holds the nodes (8 * level, 256 * index) and those that
follow. The last tile of a level may hold fewer; its name then ends with their number, so that no
tile ever changes.
"""

import base64
import binascii
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.storage.base import NOTE_BYTES

HASH_BYTES = 32
NO_ROOT = sha256().digest()
"""The root of an empty tree."""

Node = Callable[[int, int], bytes]
"""Returns the hash of a complete subtree, given its level and index."""


def leaf_hash(entry: bytes) -> bytes:
    """Returns the hash of an entry."""
    return sha256(b"\x00" + entry).digest()


def join(left: bytes, right: bytes) -> bytes:
    """Returns the hash of a subtree, given those of its halves."""
    return sha256(b"\x01" + left + right).digest()


def root(size: int, node: Node) -> bytes:
    """Returns the root of a tree with `size` leaves."""
    return _range_hash(0, size, node) if size else NO_ROOT


def consistency_proof(old: int, new: int, node: Node) -> list[bytes]:
    """Returns the hashes that show the tree of `old` leaves to be a prefix of that of `new`.

    Raises:
        ValueError: the old tree is empty or larger than the new one.
    """
    if not 0 < old <= new:
        raise ValueError(f"old size: expected 1 to {new}, got {old}")
    proof: list[bytes] = []
    start, stop = 0, new
    while old < stop:
        middle = start + _split(stop - start)
        if old <= middle:
            proof.append(_range_hash(middle, stop, node))
            stop = middle
        else:
            proof.append(_range_hash(start, middle, node))
            start = middle
    if start:
        proof.append(_range_hash(start, stop, node))
    return proof[::-1]


def proves_consistency(
    old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Returns whether a proof shows that a tree continues an older one."""
    if old == new:
        return not proof and old_root == new_root
    if not 0 < old < new:
        return False
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        return False
    position, last = old - 1, new - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    old_computed = new_computed = path[0]
    for sibling in path[1:]:
        if not last:
            return False
        if position & 1 or position == last:
            old_computed, new_computed = join(sibling, old_computed), join(sibling, new_computed)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            new_computed = join(new_computed, sibling)
        position, last = position >> 1, last >> 1
    return not last and old_computed == old_root and new_computed == new_root


def _split(count: int) -> int:
    """Returns the largest power of two below a count of at least 2."""
    return 1 << ((count - 1).bit_length() - 1)


def _range_hash(start: int, stop: int, node: Node) -> bytes:
    """Returns the hash of the leaves from `start` to `stop`, a range that the tree splits off."""
    count = stop - start
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return node(level, start >> level)
    middle = start + _split(count)
    return join(_range_hash(start, middle, node), _range_hash(middle, stop, node))


WIDTH = 256
HEIGHT = 8


def tile_name(level: int | str, index: int, width: int) -> str:
    """Returns the name of a tile, `level` "entries" for a bundle of entries.

    The index is written in groups of three digits, all but the last after an `x`.
    """
    groups = [f"{index % 1000:03d}"]
    while index := index // 1000:
        groups.append(f"x{index % 1000:03d}")
    partial = f".p/{width}" if width < WIDTH else ""
    return f"tile/{level}/{'/'.join(reversed(groups))}{partial}"


def widths(size: int, level: int) -> Iterator[tuple[int, int]]:
    """Yields each tile of a level in a tree of `size` leaves: its index and its width."""
    nodes = size >> (HEIGHT * level)
    for index in range(nodes // WIDTH):
        yield index, WIDTH
    if nodes % WIDTH:
        yield nodes // WIDTH, nodes % WIDTH


def levels(size: int) -> int:
    """Returns the number of levels of tiles of a tree with `size` leaves."""
    return max(1, -(-size.bit_length() // HEIGHT)) if size else 0


def subtree(hashes: Sequence[bytes]) -> bytes:
    """Returns the hash of a complete subtree over a power of two of nodes."""
    nodes = list(hashes)
    while len(nodes) > 1:
        nodes = [join(*nodes[at : at + 2]) for at in range(0, len(nodes), 2)]
    return nodes[0]


def bundle(entries: Sequence[bytes]) -> bytes:
    """Returns a bundle: each entry after its length in two bytes, big-endian."""
    return b"".join(struct.pack(">H", len(entry)) + entry for entry in entries)


def entries_in(content: bytes) -> list[bytes]:
    """Returns the entries of a bundle.

    Raises:
        ValueError: it ends inside an entry.
    """
    entries: list[bytes] = []
    at = 0
    while at < len(content):
        if at + 2 > len(content):
            raise ValueError("a bundle that ends inside a length")
        (length,) = struct.unpack_from(">H", content, at)
        at += 2
        if at + length > len(content):
            raise ValueError("a bundle that ends inside an entry")
        entries.append(content[at : at + length])
        at += length
    return entries


_ED25519 = b"\x01"
_ID_BYTES, _SIGNATURE_BYTES = 4, 64

Verify = Callable[[bytes, bytes], bool]
"""Returns whether a signature (second) is that of a message (first)."""


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
    if len(note) > NOTE_BYTES:
        raise InputError(
            f"log head: expected at most {NOTE_BYTES} bytes, got {len(note)}",
            code="rounds.bad_head",
        )
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
        text, _, rest = note.decode().partition("\n\n")
        origin, size, root, *extensions = text.split("\n")
        head = Head(origin, int(size), base64.b64decode(root, validate=True))
    except ValueError:
        raise problem from None
    exact = f"{text}\n" == head.text() and not extensions and len(head.root) == HASH_BYTES
    if not (exact and origin and rest.endswith("\n")):
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
        return root(self.size, self.node)

    def consistency(self, old: int) -> list[bytes]:
        """Returns the proof that the first `old` entries are a prefix of these."""
        return consistency_proof(old, self.size, self.node)

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
        if [leaf_hash(entry) for entry in entries] != self._tile(0, index):
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
            tile = self._bytes(name)
            hashes = [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]
            if len(hashes) != width or any(len(hash_) != HASH_BYTES for hash_ in hashes):
                raise InputError(
                    f"log/{name}: expected {width} hashes, got {len(hashes)}",
                    code="rounds.bad_tile",
                )
            # without the tiles below, a root says nothing about its entries
            below = range(index * WIDTH, index * WIDTH + width) if level else ()
            if level and hashes != [subtree(self._tile(level - 1, lower)) for lower in below]:
                raise InputError(
                    f"log/{name}: expected the hashes of the tiles below, got others",
                    code="rounds.bad_tile",
                )
            self._tiles[key] = hashes
        return self._tiles[key]

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
