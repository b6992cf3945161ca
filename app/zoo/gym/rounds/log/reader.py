"""Reads a log from its storage: entries, nodes and proofs, checked against a signed head."""

from collections.abc import Callable, Mapping

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.log import tree
from zoo.gym.rounds.log.head import MOST_BYTES, Head, NoteKey, Verify, read_note
from zoo.gym.rounds.log.tiles import (
    HEIGHT,
    WIDTH,
    entries_in,
    hashes_in,
    subtree,
    tile_name,
    widths,
)

CHECKPOINT = "log/checkpoint"

Read = Callable[[str], bytes | None]
"""Returns the bytes of a name in a storage, None where there are none."""


def read_head(
    note: bytes | None, origin: str, log_key: NoteKey, verifiers: Mapping[NoteKey, Verify]
) -> tuple[Head, dict[NoteKey, bytes]]:
    """Returns the head of a log and the valid signatures of it.

    Args:
        note: the stored one; None if there is none.
        origin: the log's name.
        log_key: the key that must have signed.
        verifiers: that key, and those of witnesses.

    Raises:
        NotAvailableError: there is no head.
        InputError: it is not a head of this log, signed by its key.
    """
    if note is None:
        raise NotAvailableError(f"log of {origin}: expected a signed head, got nothing")
    if len(note) > MOST_BYTES:
        raise InputError(f"log head: expected at most {MOST_BYTES} bytes, got {len(note)}")
    head, signatures = read_note(note, origin, verifiers)
    if log_key not in signatures:
        raise InputError(f"log head: expected a signature of {log_key.name!r}, got none")
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
        found: list[bytes] = []
        for index, width in widths(self.size, 0):
            if index >= first_bundle:
                found += self._bundle(index, width)
        return found

    def _bundle(self, index: int, width: int) -> list[bytes]:
        name = tile_name("entries", index, width)
        try:
            found = entries_in(self._bytes(name))
        except ValueError as error:
            raise InputError(f"log/{name}: expected entries, got {error}") from None
        if [tree.leaf_hash(entry) for entry in found] != self._tile(0, index):
            raise InputError(f"log/{name}: expected the entries of their hashes, got others")
        return found

    def _tile(self, level: int, index: int) -> list[bytes]:
        key = (level, index)
        if key not in self._tiles:
            width = min(WIDTH, (self.size >> (HEIGHT * level)) - index * WIDTH)
            name = tile_name(level, index, width)
            hashes = hashes_in(self._bytes(name))
            if len(hashes) != width or any(len(one) != tree.HASH_BYTES for one in hashes):
                raise InputError(f"log/{name}: expected {width} hashes, got {len(hashes)}")
            if level and hashes != self._above(level - 1, index * WIDTH, width):
                raise InputError(f"log/{name}: expected the hashes of the tiles below, got others")
            self._tiles[key] = hashes
        return self._tiles[key]

    def _above(self, level: int, first: int, count: int) -> list[bytes]:
        """Returns the hashes of whole tiles: without them a root says nothing about its entries."""
        return [subtree(self._tile(level, index)) for index in range(first, first + count)]

    def _bytes(self, name: str) -> bytes:
        content = self._read(f"log/{name}")
        if content is None:
            raise InputError(f"log/{name}: expected a tile of the log, got nothing")
        return content


def open_log(read: Read, head: Head) -> LogReader:
    """Returns a reader of the log under a head.

    Raises:
        InputError: the stored tiles do not have the head's root.
    """
    reader = LogReader(read, head.size)
    if reader.root() != head.root:
        raise InputError(f"log of {head.origin}: expected the root of its head, got another")
    return reader
