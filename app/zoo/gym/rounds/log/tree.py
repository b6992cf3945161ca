"""The Merkle tree of a log, and the tiles of 256 that store its hashes and entries.

Hashes and consistency proofs follow RFC 6962, section 2.1.2, verification RFC 9162, section
2.1.4.2; SHA-256 throughout. A *node* is the hash of a complete subtree: node (level, index) covers
the `2**level` leaves from `index * 2**level` on.

Tiles are laid out as in C2SP's tlog-tiles: tile (level, index) holds the nodes (8 * level,
256 * index) and those that follow. The last tile of a level may hold fewer; its name then ends with
their number, so that no tile ever changes.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

HASH_BYTES = 32

Node = Callable[[int, int], bytes]
"""Returns the hash of a complete subtree, given its level and index."""


def leaf_hash(entry: bytes) -> bytes:
    """Returns the hash of an entry."""
    return sha256(b"\x00" + entry).digest()


def join(left: bytes, right: bytes) -> bytes:
    """Returns the hash of a subtree, given those of its halves."""
    return sha256(b"\x01" + left + right).digest()


def root(size: int, node: Node) -> bytes:
    """Returns the root of a tree with `size` leaves; that of an empty one is SHA-256 of nothing."""
    return _range_hash(0, size, node) if size else sha256().digest()


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
    """Says whether a proof shows that a tree continues an older one."""
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
    old_found = new_found = path[0]
    for sibling in path[1:]:
        if not last:
            return False
        if position & 1 or position == last:
            old_found, new_found = join(sibling, old_found), join(sibling, new_found)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            new_found = join(new_found, sibling)
        position, last = position >> 1, last >> 1
    return not last and old_found == old_root and new_found == new_root


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


def hashes_in(tile: bytes) -> list[bytes]:
    """Returns the hashes of a tile."""
    return [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]


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
