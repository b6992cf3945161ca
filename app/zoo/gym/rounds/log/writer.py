"""Appends to a log: entries and tiles first, then the signed head that makes them count.

A program killed in between leaves tiles that no head covers; the next one writes over them. One
writer at a time: the caller holds the lock of the round.
"""

from collections.abc import Callable, Sequence

from zoo.gym.errors import InputError, StorageError
from zoo.gym.rounds.log import reader
from zoo.gym.rounds.log.reader import HEIGHT, WIDTH, Head, Node, NoteKey
from zoo.gym.rounds.storage.base import ENTRY_BYTES, Storage

Sign = Callable[[bytes], bytes]
"""Returns the signature of a message."""

Nodes = dict[tuple[int, int], bytes]
"""Nodes by level and index."""


class LogWriter:
    """A log that grows.

    Raises:
        InputError: the stored tiles do not have the head's root.
        StorageError: the stored head is another one.
    """

    def __init__(self, storage: Storage, head: Head, key: NoteKey, sign: Sign) -> None:
        self._storage, self._key, self._sign = storage, key, sign
        self.head = head
        self._note = storage.read(reader.CHECKPOINT)
        if head.size and not (self._note or b"").startswith(head.text().encode()):
            raise self._overtaken()
        log = reader.open_log(storage.read, head)
        full = head.size // WIDTH
        self._entries = log.entries(full)
        self._nodes = _right_edge(log.node, head.size)

    def append(self, entries: Sequence[bytes]) -> Head:
        """Adds entries and returns the new head, which is durable.

        Raises:
            InputError: an entry is empty or too long; nothing was added.
            StorageError: nothing counts as added; or another program has written the log.
        """
        for entry in entries:
            if not 0 < len(entry) <= ENTRY_BYTES:
                raise InputError(
                    f"log entry: expected 1 to {ENTRY_BYTES} bytes, got {len(entry)}",
                    code="rounds.entry_size",
                )
        if not entries:
            return self.head
        if self._storage.read(reader.CHECKPOINT) != self._note:
            raise self._overtaken()
        size, last_bundle, nodes = self.head.size, list(self._entries), dict(self._nodes)
        for entry in entries:
            _add(nodes, size, reader.leaf_hash(entry))
            last_bundle.append(entry)
            size += 1
            if size % WIDTH == 0:
                self._write_bundle(size // WIDTH - 1, last_bundle)
                last_bundle = []
        if last_bundle:
            self._write_bundle(size // WIDTH, last_bundle)
        self._write_tiles(nodes, size)
        head = Head(self.head.origin, size, reader.root(size, _node_in(nodes)))
        note = reader.signed_note(head, {self._key: self._sign(head.text().encode())})
        self._storage.replace(reader.CHECKPOINT, note)
        self._note = note
        self.head, self._entries = head, last_bundle
        self._nodes = _right_edge(_node_in(nodes), size)
        return head

    def _overtaken(self) -> StorageError:
        return StorageError(
            f"log of {self.head.origin}: expected the head of {self.head.size} entries, got "
            "another",
            hint="another program has written it meanwhile: run the command again",
            code="rounds.log_overtaken",
        )

    def _write_bundle(self, index: int, entries: Sequence[bytes]) -> None:
        name = reader.tile_name("entries", index, len(entries))
        self._storage.replace(f"log/{name}", reader.bundle(entries))

    def _write_tiles(self, nodes: Nodes, size: int) -> None:
        old = self.head.size
        for level in range(reader.levels(size)):
            first = (old >> (HEIGHT * level)) // WIDTH
            for index, width in reader.widths(size, level):
                if index < first:
                    continue
                at = index * WIDTH
                tile = [nodes[HEIGHT * level, at + offset] for offset in range(width)]
                self._storage.replace(
                    f"log/{reader.tile_name(level, index, width)}", b"".join(tile)
                )


def _right_edge(node: Node, size: int) -> Nodes:
    """Returns the nodes of the last tile of each level, unless it is full."""
    return {
        (HEIGHT * level, index): node(HEIGHT * level, index)
        for level in range(reader.levels(size))
        for index in range((size >> (HEIGHT * level)) // WIDTH * WIDTH, size >> (HEIGHT * level))
    }


def _node_in(nodes: Nodes) -> Node:
    """Returns a function that computes any node from those at the levels of tiles."""

    def node(level: int, index: int) -> bytes:
        above = level % HEIGHT
        first = index << above
        return reader.subtree(
            [nodes[level - above, first + offset] for offset in range(1 << above)]
        )

    return node


def _add(nodes: Nodes, index: int, leaf: bytes) -> None:
    """Adds a leaf, and the node above each tile that it completes."""
    level, node = 0, leaf
    nodes[0, index] = node
    while (index + 1) % WIDTH == 0:
        first = index + 1 - WIDTH
        node = reader.subtree([nodes[level, first + offset] for offset in range(WIDTH)])
        level, index = level + HEIGHT, index // WIDTH
        nodes[level, index] = node
