"""Which heads and tiles of a log a server takes: those that continue what it has."""

import re
from contextlib import suppress
from dataclasses import dataclass

from zoo.gym.errors import InputError
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.rounds.log.reader import (
    CHECKPOINT,
    HASH_BYTES,
    HEIGHT,
    WIDTH,
    Head,
    open_log,
    proves_consistency,
    read_head,
)
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.opening import (
    known_keys,
    log_key,
    origin,
    read_witness,
    refuse_other_history,
    verifiers,
)
from zoo.gym.rounds.storage.base import FolderStorage, NoFileError

_TILE = re.compile(r"log/tile/(?P<level>entries|\d+)/(?P<index>[x\d/]+?)(\.p/(?P<width>\d+))?")


@dataclass(frozen=True)
class Kept:
    """A round as a server has it.

    Attributes:
        id: the round's.
        manifest: its terms.
        storage: its folder.
    """

    id: str
    manifest: Manifest
    storage: FolderStorage

    def head(self, note: bytes | None = None) -> Head | None:
        """Returns the head in a note, or the stored one; None if the log has none yet.

        Raises:
            InputError: it is none of this log, or without its key's signature.
        """
        content = self.storage.read(CHECKPOINT) if note is None else note
        if content is None:
            return None
        key = log_key(self.id, self.manifest)
        known = verifiers(known_keys(self.id, self.manifest))
        return read_head(content, origin(self.id), key, known)[0]


def check_head(kept: Kept, note: bytes) -> None:
    """Refuses a head that does not continue the stored one, or whose tiles are not stored.

    Raises:
        RefusedError: with status 409 if others have written meanwhile, else 422.
    """
    old, new = kept.head(), kept.head(note)
    assert new is not None
    if new.size < 1:
        raise RefusedError(422, "log head: expected at least the manifest, got no entry")
    if old is not None and (new.size < old.size or (new.size == old.size and new.root != old.root)):
        raise stale(old, new)
    log = open_log(kept.storage.read, new)
    if old is not None and new.size > old.size:
        proof = log.consistency(old.size)
        if not proves_consistency(old.size, old.root, new.size, new.root, proof):
            raise stale(old, new)
    log.entries(old.size // WIDTH if old is not None else 0)


def check_witness(kept: Kept, name: str, note: bytes) -> None:
    """Refuses a note that is none of a witness of the round, or does not fit the log.

    Raises:
        RefusedError: with status 403 for a key that is no witness; 409 for another history, or one
            that was signed before.
        InputError: it is not a note of this witness.
    """
    named = {key.raw.hex(): key for key in kept.manifest.keys_of("witness")}
    key = named.get(name.rpartition("/")[2])
    if key is None:
        raise RefusedError(403, "witness: expected a key that the manifest names, got another")
    signed, head = read_witness(note, kept.id, kept.manifest, key), kept.head()
    if head is None or signed.size > head.size:
        raise RefusedError(409, "witness: expected a head of this log, got a later one")
    last: Head | None = None
    with suppress(InputError, NoFileError):  # others may write in the folder
        before = kept.storage.read(name)
        last = None if before is None else read_witness(before, kept.id, kept.manifest, key)
    if last is not None and last.size > signed.size:
        raise RefusedError(409, "witness: expected a later head than before, got an earlier one")
    try:
        refuse_other_history(signed, head, open_log(kept.storage.read, head), "the witness")
    except InputError as error:
        raise RefusedError(409, error.message, hint=error.hint) from None


def stale(old: Head, new: Head) -> RefusedError:
    """Returns the refusal of a head that does not continue the stored one."""
    return RefusedError(
        409,
        f"log head: expected one that continues the {old.size} entries here, got {new.size} "
        "entries that do not",
        hint="somebody else wrote the log: run the command again",
    )


def is_covered(name: str, head: Head | None) -> bool:
    """Says whether a head covers all hashes or entries of a tile, which then never changes.

    Raises:
        InputError: it is no tile.
    """
    level, index, width = tile_place(name)
    nodes = 0 if head is None else head.size >> (HEIGHT * level)
    return nodes >= index * WIDTH + width


def check_tile(name: str, content: bytes) -> None:
    """Refuses a tile of another length than its name says; bundles are checked under the head.

    Raises:
        InputError: its length is another one.
    """
    width = tile_place(name)[2]
    if "/entries/" not in name and len(content) != width * HASH_BYTES:
        raise InputError(
            f"{name}: expected {width * HASH_BYTES} bytes, got {len(content)}",
            code="rounds.bad_tile_upload",
        )


def tile_place(name: str) -> tuple[int, int, int]:
    """Returns the level of a tile, its index in it, and its width.

    Raises:
        InputError: it is no tile.
    """
    found = _TILE.fullmatch(name)
    if found is None:
        raise InputError(f"{name[:80]}: expected a tile", code="rounds.bad_tile_upload")
    level = 0 if found["level"] == "entries" else int(found["level"])
    index = int(found["index"].replace("/", "").replace("x", ""))
    width = int(found["width"]) if found["width"] else WIDTH
    if not 0 < width <= WIDTH or level > 7:
        raise InputError(
            f"{name[:80]}: expected a tile of at most {WIDTH}", code="rounds.bad_tile_upload"
        )
    return level, index, width
