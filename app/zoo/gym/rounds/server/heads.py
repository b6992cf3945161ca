"""A log as a server has it, and which heads and tiles it takes: those that continue it."""

import re
import threading
from contextlib import suppress
from dataclasses import dataclass

from zoo.gym.errors import InputError
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.rounds.log import reader
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import State, state_of
from zoo.gym.rounds.session import opening
from zoo.gym.rounds.storage.base import FolderStorage, NoFileError

_TILE = re.compile(r"log/tile/(?P<level>entries|\d+)/(?P<index>[x\d/]+?)(\.p/(?P<width>\d+))?")


@dataclass(frozen=True)
class Kept:
    """A round as a server has it."""

    id: str
    manifest: Manifest
    storage: FolderStorage

    def head(self, note: bytes | None = None) -> reader.Head | None:
        """Returns the head in a note, or the stored one; None if the log has none yet.

        Raises:
            InputError: it is none of this log, or without its key's signature.
        """
        content = self.storage.read(reader.CHECKPOINT) if note is None else note
        if content is None:
            return None
        key = opening.log_key(self.id, self.manifest)
        verifiers = opening.verifiers(opening.known_keys(self.id, self.manifest))
        return reader.read_head(content, opening.origin(self.id), key, verifiers)[0]


class Latest:
    """The latest state of a round, read again when the head has changed."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self._lock = threading.Lock()
        self._note: bytes | None = None
        self._state = State(kept.id, kept.manifest)

    def state(self) -> State:
        """Returns the state; that of a new round where there is no log yet.

        Raises:
            InputError: the log is not valid.
        """
        with self._lock:
            note = self.kept.storage.read(reader.CHECKPOINT)
            head = None if note is None else self.kept.head(note)
            if head is not None and note != self._note:
                self._state = state_of(reader.open_log(self.kept.storage.read, head).entries())
                self._note = note
            return self._state


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
    log = reader.open_log(kept.storage.read, new)
    if old is not None and new.size > old.size:
        proof = log.consistency(old.size)
        if not reader.proves_consistency(old.size, old.root, new.size, new.root, proof):
            raise stale(old, new)
    log.entries(old.size // reader.WIDTH if old is not None else 0)


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
    signed, head = opening.read_witness(note, kept.id, kept.manifest, key), kept.head()
    if head is None or signed.size > head.size:
        raise RefusedError(409, "witness: expected a head of this log, got a later one")
    last: reader.Head | None = None
    with suppress(InputError, NoFileError):  # others may write in the folder
        before = kept.storage.read(name)
        last = None if before is None else opening.read_witness(before, kept.id, kept.manifest, key)
    if last is not None and last.size > signed.size:
        raise RefusedError(409, "witness: expected a later head than before, got an earlier one")
    try:
        opening.refuse_other_history(
            signed, head, reader.open_log(kept.storage.read, head), "the witness"
        )
    except InputError as error:
        raise RefusedError(409, error.message, hint=error.hint) from None


def stale(old: reader.Head, new: reader.Head) -> RefusedError:
    """Returns the refusal of a head that does not continue the stored one."""
    return RefusedError(
        409,
        f"log head: expected one that continues the {old.size} entries here, got {new.size} "
        "entries that do not",
        hint="somebody else wrote the log: run the command again",
    )


def check_tile(kept: Kept, name: str, content: bytes) -> None:
    """Refuses a tile of another length than its name says, or that the stored head covers.

    Bundles are checked under the head; what it covers never changes.

    Raises:
        InputError: it is no tile, or its length is another one.
        RefusedError: with status 409 if another one is stored and covered.
    """
    match = _TILE.fullmatch(name)
    if match is None:
        raise InputError(f"{name[:80]}: expected a tile", code="rounds.bad_tile_upload")
    level = 0 if match["level"] == "entries" else int(match["level"])
    index = int(match["index"].replace("/", "").replace("x", ""))
    width = int(match["width"]) if match["width"] else reader.WIDTH
    if not 0 < width <= reader.WIDTH or level > 7:
        raise InputError(
            f"{name[:80]}: expected a tile of at most {reader.WIDTH}", code="rounds.bad_tile_upload"
        )
    if match["level"] != "entries" and len(content) != width * reader.HASH_BYTES:
        raise InputError(
            f"{name}: expected {width * reader.HASH_BYTES} bytes, got {len(content)}",
            code="rounds.bad_tile_upload",
        )
    head = None if kept.storage.size(name) is None else kept.head()
    if head is not None and head.size >> (reader.HEIGHT * level) >= index * reader.WIDTH + width:
        raise RefusedError(
            409,
            f"{name}: expected the stored bytes, got others",
            hint="somebody else wrote the log: run the command again",
        )
