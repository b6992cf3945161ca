"""The writer of a round's log: starts it, takes what people left, closes phases.

Contributors leave signed entries in the storage's inbox, in any way that brings files there; the
writer takes those that may follow and says why others may not. One writer at a time holds the lock
of the round, so two programs cannot fork the log by accident.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files.lock import locked
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.log.reader import CHECKPOINT, NO_ROOT, Head
from zoo.gym.rounds.log.writer import LogWriter
from zoo.gym.rounds.payouts.reputation import read_standings
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, manifest_body, round_id
from zoo.gym.rounds.protocol.objects import MOST_TEXT, as_text
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.session.newcomers import (
    established_of,
    expect_room,
    kept_nonce,
    refuse_hopeless,
)
from zoo.gym.rounds.session.opening import (
    MANIFEST,
    Opened,
    inbox_name,
    left_entries,
    note_key,
    open_round,
    origin,
)
from zoo.gym.rounds.storage.base import ENTRY_BYTES, Storage
from zoo.gym.rounds.storage.chunks import chunk_name
from zoo.gym.signing import OwnKey, PublicKey, Signed, sign
from zoo.gym.signing.keys import sign_bytes

WAIT_S = 30.0
"""How long a writer waits for another one of this machine."""


@dataclass(frozen=True)
class Taken:
    """The entries of an inbox that were added to the log; the names of the others, and why."""

    added: Sequence[Signed]
    refused: Sequence[tuple[str, str]]


def create_round(
    storage: Storage, manifest: Manifest, key: OwnKey, standings: bytes | None = None
) -> str:
    """Starts a round and returns its id; the same manifest again is accepted.

    Args:
        storage: where it will be; empty, or with the same round.
        manifest: its terms; `key` is the one of role log.
        standings: the chunk that the manifest names; None if it is stored, or names none.

    Raises:
        InputError: the key is not that of the log, another round is there, the manifest is larger
            than an entry of the log, or `standings` are none, or such that the round could only
            become void.
        StorageError: it cannot be written.
    """
    if manifest.keys_of("log") != {key.public}:
        raise InputError(
            "manifest: expected your key as the key of role log, got another one",
            code="rounds.other_key",
        )
    if standings is not None:
        refuse_hopeless(manifest, read_standings(standings))
    signed = sign(key, objects.MANIFEST, manifest_body(manifest))
    size = len(objects.encode(signed))
    if size > ENTRY_BYTES:
        raise InputError(
            f"manifest: expected at most {ENTRY_BYTES} bytes, an entry of the log, got {size}"
            f" with {len(manifest.tensors)} tensors",
            hint="name fewer tensors with --tensors",
            code="rounds.manifest_too_large",
        )
    name = round_id(signed)
    with writing(name, storage.address):
        stored = storage.read(MANIFEST)
        if stored not in {None, objects.encode(signed)}:
            raise InputError(
                f"{storage.address}: expected no round, got another one", code="rounds.round_exists"
            )
        storage.write(MANIFEST, objects.encode(signed))
        if standings is not None and manifest.newcomers is not None:
            # a server takes chunks of a round that it knows; the log makes it one
            storage.write(chunk_name(manifest.newcomers.standings), standings)
        if storage.read(CHECKPOINT) is None:
            empty = Head(origin(name), 0, NO_ROOT)
            log_writer(storage, empty, name, key).append([objects.encode(signed)])
    return name


def leave(storage: Storage, entry: Signed) -> str:
    """Leaves an entry for the writer and returns its name in the inbox.

    Raises:
        StorageError: it cannot be written.
    """
    content = objects.encode(entry)
    name = inbox_name(content)
    storage.write(name, content)
    return name


def take(storage: Storage, key: OwnKey) -> Taken:
    """Adds the entries in the inbox that may follow, commitments and reveals alike.

    Raises:
        InputError: the key is not that of the log, or the round is not valid.
        StorageError: the log cannot be written; what was added is in it.
    """
    with writer_of(storage, key) as append:
        append.show_nonce()
        return append.take()


def close_phase(storage: Storage, key: OwnKey) -> State:
    """Closes the phase of commitments or of reveals; what the log holds then counts.

    With fewer than the quorum a phase is extended once; the second time the round is void.

    Raises:
        InputError: the key is not that of the log.
        NotAvailableError: the round is in another phase.
    """
    with writer_of(storage, key) as append:
        append.take()
        state = append.state
        if state.phase not in {Phase.COMMIT, Phase.REVEAL}:
            raise NotAvailableError(
                f"close: expected phase commit or reveal, got {state.phase}",
                code="rounds.other_phase",
            )
        if state.misses_quorum and state.phase in state.extended:
            append(objects.VOID, reason=state.too_few)
        else:
            append(objects.CLOSE, phase=state.phase.value, missed=state.misses_quorum)
            append.show_nonce()
        return append.state


def void_round(storage: Storage, key: OwnKey, because: str) -> State:
    """Makes a round void by the word of its maker, in any phase before a result is published.

    Args:
        because: the reason, one line, which stands in the log.

    Raises:
        InputError: the round has ended, the key is not that of the log, or the reason is no line.
        StorageError: the log cannot be written.
    """
    if not because.strip() or as_text(because) != because:
        raise InputError(
            f"because: expected a reason in one line of 1 to {MOST_TEXT} printable characters, "
            f"got {because!r:.60}",
            code="rounds.bad_reason",
        )
    with writer_of(storage, key) as append:
        append(objects.VOID, reason=because)
        return append.state


class Appender:
    """Adds entries to the log of a round; made by `writer_of`."""

    def __init__(self, opened: Opened, key: OwnKey) -> None:
        self.state = opened.state
        self._storage, self._key = opened.storage, key
        self._known = set(opened.entries)
        self._log = log_writer(opened.storage, opened.head, opened.state.id, key)

    def __call__(self, context: str, **fields: object) -> None:
        """Signs an entry with the log's key and adds it.

        Raises:
            InputError: it may not follow.
        """
        self.add([sign(self._key, context, objects.body_of(self.state.id, **fields))])

    def add(self, entries: Sequence[Signed]) -> None:
        """Adds signed entries, all or none.

        Raises:
            InputError: one may not follow.
        """
        state = self.state
        for entry in entries:
            state = state.after(entry)
        contents = [objects.encode(entry) for entry in entries]
        self._log.append(contents)
        self._known |= set(contents)
        self.state = state
        _forget_if_void(state)

    def show_nonce(self) -> None:
        """Shows the maker's nonce of the lot among newcomers, when nobody can commit any more.

        Raises:
            InputError: it is not on this machine.
        """
        newcomers = self.state.manifest.newcomers
        open_ = self.state.phase in {Phase.REVEAL, Phase.COMPUTE}
        if newcomers and open_ and self.state.nonce is None:
            void = self.state.manifest.command("void", "--because TEXT")
            self(objects.LOT, nonce=kept_nonce(newcomers.nonce, void))

    def take(self) -> Taken:
        """Adds what is in the inbox, in the order of the names."""
        added: list[Signed] = []
        refused: list[tuple[str, str]] = []
        state = self.state
        regulars = frozenset[PublicKey]()
        if state.phase is Phase.COMMIT:
            regulars = established_of(state.manifest, self._storage)
        for name, entry in left_entries(self._storage, self._known):
            if not isinstance(entry, Signed):
                refused.append((name, as_text(entry.message)))
                continue
            try:
                next_state = state.after(entry)
                if entry.context == objects.COMMIT:
                    expect_room(state, entry.key, regulars)
            except InputError as error:
                refused.append((name, as_text(error.message)))
            else:
                state = next_state
                added.append(entry)
        self.add(added)
        return Taken(added, refused)


@contextmanager
def writer_of(storage: Storage, key: OwnKey) -> Generator[Appender]:
    """Yields what adds entries to the log, while no other program of this machine can.

    Raises:
        InputError: the key is not that of the log, or another program writes.
    """
    name = open_round(storage, remember=False).state.id
    with writing(name, storage.address):
        opened = open_round(storage, expected=name)
        if opened.manifest.keys_of("log") != {key.public}:
            raise InputError(
                f"{storage.address}: expected the key of the log's writer, got "
                f"{key.public.fingerprint}",
                hint="only the round's maker can do that",
                code="rounds.not_maker",
            )
        _forget_if_void(opened.state)  # a program killed after the log left it
        yield Appender(opened, key)


def _forget_if_void(state: State) -> None:
    """Deletes what was kept to make a result that will never be."""
    if state.phase is Phase.VOID:
        kind_of(state.manifest).forget(state.manifest)


@contextmanager
def writing(name: str, address: str) -> Generator[None]:
    """Holds the lock of a round's log on this machine.

    A server holds that of its own folder, so that one of its clients on this machine can hold that
    of the server's address.

    Raises:
        InputError: another program holds it.
    """
    with locked(lock_file(name, address), wait_s=WAIT_S) as held:
        if not held:
            raise InputError(
                f"round {name[:12]}: expected to be its only writer, got another program that "
                f"writes since {WAIT_S:.0f} s",
                code="rounds.log_locked",
            )
        yield


def lock_file(name: str, address: str) -> Path:
    """Returns the lock of the log of a round in a storage; its folder is made."""
    suffix = sha256(address.encode()).hexdigest()[:16]
    path = folders().data / "rounds" / "locks" / f"{name}-{suffix}"
    ensure_folder(path.parent)
    return path


def log_writer(storage: Storage, head: Head, name: str, key: OwnKey) -> LogWriter:
    """Returns the writer of a round's log, as `create_round` and `writer_of` use it."""
    return LogWriter(storage, head, note_key(name, key.public), partial(sign_bytes, key.private))
