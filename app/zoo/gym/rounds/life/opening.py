"""Opens a round in its storage: reads manifest, head and log, and checks all of them.

Whoever opens a round a second time also proves that the log only grew (`seen`), so that nobody can
be shown another history.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_errors, read_small, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.life.witnessing import (
    note_key,
    origin,
    read_witnesses,
    refuse_other_history,
    verifiers,
)
from zoo.gym.rounds.log.head import Head, NoteKey
from zoo.gym.rounds.log.reader import CHECKPOINT, LogReader, open_log, read_head
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, read_manifest, round_id
from zoo.gym.rounds.protocol.state import State, state_of
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.signing import PublicKey, Signed

MANIFEST = "manifest.json"

_SEEN = re.compile(rb"([1-9][0-9]{0,17})\n([0-9a-f]{64})\n")


@dataclass(frozen=True)
class Opened:
    """A round as its storage has it, checked.

    Attributes:
        storage: where it is.
        manifest: its terms.
        state: after all entries of its log.
        entries: those entries.
        head: the head that covers them.
        log: reads proofs.
        witnesses: how many of its entries each witness has signed, with the log's key.
        note: the signed head, as it is stored.
    """

    storage: Storage
    manifest: Manifest
    state: State
    entries: Sequence[bytes]
    head: Head
    log: LogReader
    witnesses: Mapping[PublicKey, int]
    note: bytes


def open_round(storage: Storage, *, expected: str | None = None, remember: bool = True) -> Opened:
    """Returns a round.

    Args:
        storage: where it is.
        expected: the id that it must have; any if None.
        remember: compare its head with the last one that was seen here, and keep the new one.

    Raises:
        NotAvailableError: there is no round.
        InputError: its manifest, head, log or an entry is not valid; or its log is not one that
            continues the log seen here, or by a witness, before.
        StorageError: it cannot be read.

    Warns:
        GymWarning: a witness's note proves nothing.
    """
    signed = stored_manifest(storage)
    found = round_id(signed)
    if expected is not None and found != expected:
        raise InputError(f"{storage.address}: expected round {expected[:12]}, got {found[:12]}")
    manifest = read_manifest(signed)
    known = known_keys(found, manifest)
    witnessed = read_witnesses(storage, found, manifest)  # before the head, which may grow
    note = storage.read(CHECKPOINT)
    head, signatures = read_head(note, origin(found), log_key(found, manifest), verifiers(known))
    log = open_log(storage.read, head)
    entries = log.entries()
    state = state_of(entries)
    if state.id != found:
        raise InputError(f"{storage.address}: expected the log of round {found[:12]}, got another")
    for key, last in witnessed.items():
        refuse_other_history(last, head, log, f"witness {key.fingerprint}")
    if remember:
        keep_seen(head, log, found)
    signed_too = {known[key]: head.size for key in signatures if key != log_key(found, manifest)}
    witnesses = {key: last.size for key, last in witnessed.items()} | signed_too
    return Opened(storage, manifest, state, entries, head, log, witnesses, note or b"")


def stored_manifest(storage: Storage) -> Signed:
    """Returns the signed manifest in a storage.

    Raises:
        NotAvailableError: there is none.
        InputError: it was changed.
    """
    content = storage.read(MANIFEST)
    if content is None:
        raise NotAvailableError(
            f"{storage.address}: expected a round, got no {MANIFEST}",
            hint="zoo-gym round create makes one",
        )
    try:
        return objects.decode(content)
    except InputError as error:
        raise InputError(f"{MANIFEST}: {error.message}", hint=error.hint) from None


def log_key(round_: str, manifest: Manifest) -> NoteKey:
    """Returns the key that signs the heads of a round's log."""
    (key,) = manifest.keys_of("log")
    return note_key(round_, key)


def known_keys(round_: str, manifest: Manifest) -> dict[NoteKey, PublicKey]:
    """Returns the keys that may sign heads of a round's log: of its writer and its witnesses."""
    keys = manifest.keys_of("log") | manifest.keys_of("witness")
    return {note_key(round_, key): key for key in keys}


def keep_seen(head: Head, log: LogReader, round_: str) -> None:
    """Compares a head with the last one that was seen here, and keeps it if it is newer.

    Raises:
        InputError: the log was rolled back, or has another history.
        StorageError: the file cannot be written.
    """
    path = folders().data / "rounds" / "seen" / round_
    last = _last_seen(path, head.origin)
    if last is not None:
        refuse_other_history(last, head, log, "this machine")
    if last is None or head.size > last.size:
        ensure_folder(path.parent)
        write_beside(path, f"{head.size}\n{head.root.hex()}\n", sync=True)


def _last_seen(path: Path, name: str) -> Head | None:
    with read_errors(path), suppress(FileNotFoundError):
        content = read_small(path, most_bytes=1000)
        found = _SEEN.fullmatch(content)
        if found is None:
            raise InputError(
                f"{path}: expected a size and a root, got another file",
                hint="remove it: the round's history is then taken as it is now",
            )
        return Head(name, int(found[1]), bytes.fromhex(found[2].decode()))
    return None
