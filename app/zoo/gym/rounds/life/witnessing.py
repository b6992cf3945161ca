"""Witnesses: others who sign a round's head when its log only grew, and what their notes show.

A note of a witness is a C2SP signed note of its own, under a name of its own, so that two witnesses
and the log's writer never write one file. A reader who sees a note for the first time can so
tell a log that was rolled back or forked since from one that was not. It has the signature of the
log's key as well: without it, a witness could invent a head, and end any round.
"""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import GymWarning, InputError, NotAvailableError
from zoo.gym.files import read_errors, read_small
from zoo.gym.rounds.log.head import Head, NoteKey, Verify, read_note, signed_note
from zoo.gym.rounds.log.reader import LogReader
from zoo.gym.rounds.log.tree import proves_consistency
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.storage.base import NoFileError, Storage
from zoo.gym.signing import OwnKey, PublicKey
from zoo.gym.signing.ed25519 import is_signature, sign_bytes

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened

MOST_NOTE_BYTES = 100_000


def origin(round_: str) -> str:
    """Returns the name of a round's log."""
    return f"zoo-gym round {round_}"


def note_key(round_: str, key: PublicKey) -> NoteKey:
    """Returns the name under which a key signs heads of a round's log."""
    return NoteKey(f"{round_[:16]}/{key.fingerprint}", key.raw)


def verifiers(known: Mapping[NoteKey, PublicKey]) -> dict[NoteKey, Verify]:
    """Returns what checks the signatures of each key."""

    def verifier(key: PublicKey) -> Verify:
        return lambda message, signature: is_signature(key.raw, message, signature)

    return {note: verifier(key) for note, key in known.items()}


def witness_name(key: PublicKey) -> str:
    """Returns the name of a witness's note in a storage."""
    return f"witness/{key.raw.hex()}"


def read_witness(content: bytes, round_: str, manifest: Manifest, key: PublicKey) -> Head:
    """Returns the head in the note of a witness, which the log's key has signed as well.

    Raises:
        InputError: it is none of this log, or lacks one of the two signatures.
    """
    (log,) = manifest.keys_of("log")
    known = {note_key(round_, one): one for one in (log, key)}
    name = witness_name(key)
    try:
        head, found = read_note(content, origin(round_), verifiers(known))
    except InputError as error:
        raise InputError(f"{name}: {error.message}") from None
    for note, who in zip(known, ("log's key", "witness"), strict=True):
        if note not in found:
            raise InputError(f"{name}: expected a signature of the {who}, got none")
    return head


def read_witnesses(storage: Storage, round_: str, manifest: Manifest) -> dict[PublicKey, Head]:
    """Returns what the witnesses of a round have signed last.

    Warns:
        GymWarning: a note proves nothing, and is passed over: anybody could have written it.
    """
    found: dict[PublicKey, Head] = {}
    for key in sorted(manifest.keys_of("witness")):
        try:
            content = storage.read(witness_name(key))
        except NoFileError as error:
            _warn(key, error.message)
            continue
        if content is not None:
            try:
                found[key] = read_witness(content, round_, manifest, key)
            except InputError as error:
                _warn(key, error.message)
    return found


def _warn(key: PublicKey, why: str) -> None:
    warnings.warn(
        f"the note of witness {key.fingerprint} proves nothing and counts as missing: {why}",
        GymWarning,
        stacklevel=3,
    )


def witness(opened: "Opened", key: OwnKey) -> None:
    """Signs the head of a round as a witness, and stores the note.

    Args:
        opened: the round, whose head was compared with the one that this user saw last.
        key: of the witness.

    Raises:
        InputError: the key is no witness of the round, or the log does not continue what it signed.
        StorageError: the note cannot be stored.
    """
    manifest, storage, round_ = opened.manifest, opened.storage, opened.state.id
    if key.public not in manifest.keys_of("witness"):
        raise InputError(
            f"round {manifest.name}: expected a key of role witness, got {key.public.fingerprint}",
            hint="the maker names witnesses: zoo-gym round create --witness KEY",
        )
    name = witness_name(key.public)
    before: bytes | None = None
    last: Head | None = None
    with suppress(NoFileError):
        before = storage.read(name)
    if before is not None:
        with suppress(InputError):  # opening the round has warned of a note that proves nothing
            last = read_witness(before, round_, manifest, key.public)
    if last is not None:
        refuse_other_history(last, opened.head, opened.log, f"witness {key.public.fingerprint}")
    note = _cosigned(opened, key)
    if note != before:
        storage.replace(name, note)


def _cosigned(opened: "Opened", key: OwnKey) -> bytes:
    """Returns the note of the head with the signatures of the log's key and of a witness."""
    (log,) = opened.manifest.keys_of("log")
    maker, own = (note_key(opened.state.id, one) for one in (log, key.public))
    _, signatures = read_note(opened.note, opened.head.origin, verifiers({maker: log}))
    signature = sign_bytes(key.private, opened.head.text().encode())
    return signed_note(opened.head, {maker: signatures[maker], own: signature})


def read_kept_head(path: Path, round_: str, known: Mapping[NoteKey, PublicKey]) -> Head:
    """Returns the head in a file that somebody kept, as `round anchor` hands it out.

    Raises:
        NotAvailableError: there is no file.
        InputError: it is no head of this round, or nobody of its keys signed it.
    """
    with read_errors(path):
        try:
            content = read_small(path, most_bytes=MOST_NOTE_BYTES)
        except FileNotFoundError:
            raise NotAvailableError(f"{path}: expected a signed head, got nothing") from None
    head, found = read_note(content, origin(round_), verifiers(known))
    if not found:
        raise InputError(f"{path}: expected a signature of the round's keys, got none")
    return head


def refuse_other_history(last: Head, head: Head, log: LogReader, who: str) -> None:
    """Refuses a log that does not continue one that was seen.

    Args:
        last: the head that was seen.
        head: the head of now.
        log: under that head.
        who: saw it, for the message.

    Raises:
        InputError: the log was rolled back, or has another history.
    """
    if not last.size:
        return
    if head.size < last.size:
        raise InputError(
            f"{head.origin}: expected at least the {last.size} entries that {who} has seen, got "
            f"{head.size}: the log was rolled back"
        )
    proof = log.consistency(last.size) if head.size > last.size else []
    if not proves_consistency(last.size, last.root, head.size, head.root, proof):
        raise InputError(
            f"{head.origin}: expected a log that continues the {last.size} entries that {who} has "
            "seen, got another history: its writer shows different logs to different people",
            hint=f"the root seen before is {last.root.hex()}, that of now {head.root.hex()}",
        )
