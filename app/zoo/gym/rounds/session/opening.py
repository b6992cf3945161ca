"""Opens a round in its storage: reads manifest, head, log and inbox, and checks all of them.

Whoever opens a round a second time also proves that the log only grew (`seen`), so that nobody can
be shown another history. So do witnesses, who sign a head when its log only grew: a reader who sees
their notes for the first time can tell a log that was rolled back or forked since. A note is a C2SP
signed note under a name of its own, so that two witnesses and the log's writer never write one
file. It has the signature of the log's key as well: without it, a witness could invent a head, and
end any round.
"""

import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from zoo.gym.errors import GymWarning, InputError, NotAvailableError, StorageError, within
from zoo.gym.files import read_errors, read_small, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.log import reader
from zoo.gym.rounds.log.reader import Head, LogReader, NoteKey
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, read_manifest, round_id
from zoo.gym.rounds.protocol.state import State, state_of
from zoo.gym.rounds.storage.base import NoFileError, Storage
from zoo.gym.rounds.storage.chunks import check_there
from zoo.gym.signing import OwnKey, PublicKey, Signed
from zoo.gym.signing.keys import is_signature, sign_bytes

INBOX = "inbox"
"""The folder of entries that were left for the writer."""

_ENTRY = re.compile(rf"{INBOX}/[a-z0-9][a-z0-9._-]{{0,150}}\.json", re.ASCII)


def inbox_name(content: bytes) -> str:
    """Returns the name of an entry in the inbox."""
    return f"{INBOX}/{sha256(content).hexdigest()}.json"


def left_entries(
    storage: Storage, seen: Collection[bytes] = ()
) -> Iterator[tuple[str, Signed | StorageError | InputError]]:
    """Yields the entries in an inbox by name, in the order of the names.

    Of what cannot be read, or is no entry, it yields why. Names that no entry has are passed over.

    Raises:
        GymError: the storage itself cannot be read, or is gone.
    """
    taken = {inbox_name(content) for content in seen}  # are not read again
    for name in storage.names(INBOX):
        if name in taken or not _ENTRY.fullmatch(name):
            continue
        try:
            content = storage.read(name) or b""
        except StorageError as error:
            check_there(storage)
            yield name, error
            continue
        if content in seen:
            continue
        try:
            yield name, objects.decode(content)
        except InputError as error:
            yield name, error


def origin(round_: str) -> str:
    """Returns the name of a round's log."""
    return f"zoo-gym round {round_}"


def note_key(round_: str, key: PublicKey) -> NoteKey:
    """Returns the name under which a key signs heads of a round's log."""
    return NoteKey(f"{round_[:16]}/{key.fingerprint}", key.raw)


def verifiers(keys: Mapping[NoteKey, PublicKey]) -> dict[NoteKey, reader.Verify]:
    """Returns what checks the signatures of each key."""
    return {note: partial(is_signature, key.raw) for note, key in keys.items()}


def witness_name(key: PublicKey) -> str:
    """Returns the name of a witness's note in a storage."""
    return f"witness/{key.raw.hex()}"


def read_witness(content: bytes, round_: str, manifest: Manifest, key: PublicKey) -> Head:
    """Returns the head in the note of a witness, which the log's key has signed as well.

    Raises:
        InputError: it is none of this log, or lacks one of the two signatures.
    """
    (log,) = manifest.keys_of("log")
    keys = {note_key(round_, signer): signer for signer in (log, key)}
    name = witness_name(key)
    with within(name):
        head, signatures = reader.read_note(content, origin(round_), verifiers(keys))
    for note, who in zip(keys, ("log's key", "witness"), strict=True):
        if note not in signatures:
            raise InputError(
                f"{name}: expected a signature of the {who}, got none", code="rounds.unsigned_head"
            )
    return head


def read_witnesses(storage: Storage, round_: str, manifest: Manifest) -> dict[PublicKey, Head]:
    """Returns what the witnesses of a round have signed last.

    Warns:
        GymWarning: a note proves nothing, and is passed over: anybody could have written it.
    """
    heads: dict[PublicKey, Head] = {}
    for key in sorted(manifest.keys_of("witness")):
        why = ""
        try:
            content = storage.read(witness_name(key))
        except NoFileError as error:
            content, why = None, error.message
        if content is not None:
            try:
                heads[key] = read_witness(content, round_, manifest, key)
            except InputError as error:
                why = error.message
        if why:
            text = f"the note of witness {key.fingerprint} proves nothing and counts as missing"
            warnings.warn(f"{text}: {why}", GymWarning, stacklevel=2)
    return heads


def witness(opened: "Opened", key: OwnKey) -> None:
    """Signs the head of a round as a witness, and stores the note.

    Args:
        opened: the round; opening it has compared its head with the last one seen here.

    Raises:
        InputError: the key is no witness of the round, or the log does not continue what it signed.
        StorageError: the note cannot be stored.
    """
    manifest, storage, round_ = opened.manifest, opened.storage, opened.state.id
    if key.public not in manifest.keys_of("witness"):
        raise InputError(
            f"round {manifest.name}: expected a key of role witness, got {key.public.fingerprint}",
            hint="the maker names witnesses: zoo-gym round create --witness KEY",
            code="rounds.other_role",
        )
    name = witness_name(key.public)
    old_note: bytes | None = None
    last: Head | None = None
    with suppress(NoFileError):
        old_note = storage.read(name)
    if old_note is not None:
        with suppress(InputError):  # opening the round has warned of a note that proves nothing
            last = read_witness(old_note, round_, manifest, key.public)
    if last is not None:
        refuse_other_history(last, opened.head, opened.log, f"witness {key.public.fingerprint}")
    (log,) = manifest.keys_of("log")
    maker, witness_key = (note_key(round_, signer) for signer in (log, key.public))
    _, signatures = reader.read_note(opened.note, opened.head.origin, verifiers({maker: log}))
    signature = sign_bytes(key.private, opened.head.text().encode())
    note = reader.signed_note(opened.head, {maker: signatures[maker], witness_key: signature})
    if note != old_note:
        storage.replace(name, note)


def refuse_other_history(last: Head, head: Head, log: LogReader, who: str) -> None:
    """Refuses a log that does not continue one that was seen.

    Raises:
        InputError: the log was rolled back, or has another history.
    """
    if not last.size:
        return
    if head.size < last.size:
        raise InputError(
            f"{head.origin}: expected at least the {last.size} entries that {who} has seen, got "
            f"{head.size}: the log was rolled back",
            code="rounds.rolled_back",
        )
    proof = log.consistency(last.size) if head.size > last.size else []
    if not reader.proves_consistency(last.size, last.root, head.size, head.root, proof):
        raise InputError(
            f"{head.origin}: expected a log that continues the {last.size} entries that {who} has "
            "seen, got another history: its writer shows different logs to different people",
            hint=f"the root seen before is {last.root.hex()}, that of now {head.root.hex()}",
            code="rounds.forked",
        )


MANIFEST = "manifest.json"

_SEEN = re.compile(rb"([1-9][0-9]{0,17})\n([0-9a-f]{64})\n")


@dataclass(frozen=True)
class Opened:
    """A round as its storage has it, checked.

    Attributes:
        state: after all entries of its log.
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
    id_ = round_id(signed)
    if expected is not None and id_ != expected:
        raise InputError(
            f"{storage.address}: expected round {expected[:12]}, got {id_[:12]}",
            code="rounds.other_round",
        )
    manifest = read_manifest(signed)
    keys = known_keys(id_, manifest)
    witnessed = read_witnesses(storage, id_, manifest)  # before the head, which may grow
    note = storage.read(reader.CHECKPOINT)
    head, signatures = reader.read_head(note, origin(id_), log_key(id_, manifest), verifiers(keys))
    log = reader.open_log(storage.read, head)
    entries = log.entries()
    state = state_of(entries)
    if state.id != id_:
        raise InputError(
            f"{storage.address}: expected the log of round {id_[:12]}, got another",
            code="rounds.other_round",
        )
    for key, last in witnessed.items():
        refuse_other_history(last, head, log, f"witness {key.fingerprint}")
    if remember:
        keep_seen(head, log, id_)
    signed_too = {keys[key]: head.size for key in signatures if key != log_key(id_, manifest)}
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
            code="rounds.no_round",
        )
    with within(MANIFEST):
        return objects.decode(content)


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
    last: Head | None = None
    with read_errors(path), suppress(FileNotFoundError):
        match = _SEEN.fullmatch(read_small(path, most_bytes=1000))
        if match is None:
            raise InputError(
                f"{path}: expected a size and a root, got another file",
                hint="remove it: the round's history is then taken as it is now",
                code="rounds.seen_damaged",
            )
        last = Head(head.origin, int(match[1]), bytes.fromhex(match[2].decode()))
    if last is not None:
        refuse_other_history(last, head, log, "this machine")
    if last is None or head.size > last.size:
        ensure_folder(path.parent)
        write_beside(path, f"{head.size}\n{head.root.hex()}\n", sync=True)
