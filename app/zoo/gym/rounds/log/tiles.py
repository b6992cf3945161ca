"""Where a log keeps its hashes and entries: tiles of 256, as C2SP's tlog-tiles lays them out.

Tile (level, index) holds the nodes (8 * level, 256 * index) and those that follow. The last tile of
a level may hold fewer; its name then ends with their number, so that no tile ever changes.
"""

import struct
from collections.abc import Iterator, Sequence

from zoo.gym.rounds.log.tree import HASH_BYTES, join

WIDTH = 256
HEIGHT = 8
ENTRY_BYTES = 65_535
"""The most bytes of an entry: its length is stored in two."""


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


def hashes_in(tile: bytes) -> list[bytes]:
    """Returns the hashes of a tile."""
    return [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]


def subtree(hashes: Sequence[bytes]) -> bytes:
    """Returns the hash of a complete subtree over a power of two of nodes."""
    found = list(hashes)
    while len(found) > 1:
        found = [join(*found[at : at + 2]) for at in range(0, len(found), 2)]
    return found[0]


def bundle(entries: Sequence[bytes]) -> bytes:
    """Returns a bundle: each entry after its length in two bytes, big-endian."""
    return b"".join(struct.pack(">H", len(entry)) + entry for entry in entries)


def entries_in(content: bytes) -> list[bytes]:
    """Returns the entries of a bundle.

    Raises:
        ValueError: it ends inside an entry.
    """
    found: list[bytes] = []
    at = 0
    while at < len(content):
        if at + 2 > len(content):
            raise ValueError("a bundle that ends inside a length")
        (length,) = struct.unpack_from(">H", content, at)
        at += 2
        if at + length > len(content):
            raise ValueError("a bundle that ends inside an entry")
        found.append(content[at : at + length])
        at += length
    return found
