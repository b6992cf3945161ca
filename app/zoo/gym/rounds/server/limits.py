"""What contributors may fill of a round on a server: entries in its inbox, and chunks.

Keys and signatures cost nothing, so a server refuses at once what the log could never take, has one
commitment and one reveal of a key, and room for the commitments of a few times the contributors
that the round takes, and for the records of those keys that may measure.

Of chunks contributors may keep what their commitments can reveal. All of them have one token, so
what one of them stores in vain is missing to the others of the same round; other rounds, and the
round's maker, have their own part.
"""

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from zoo.gym.errors import GymError, InputError
from zoo.gym.files import read_errors
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Role as KeyRole
from zoo.gym.rounds.protocol.records import examples_of
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.heads import Latest
from zoo.gym.rounds.session.opening import left_entries
from zoo.gym.rounds.storage.base import ENTRY_BYTES
from zoo.gym.rounds.storage.chunks import CHUNK_BYTES
from zoo.gym.signing import PublicKey, Signed

COMMIT_BYTES = 2048
"""Bytes for each contributor that a round takes: a commitment has a quarter of them."""

LEAST_COMMITS = 100
"""A round that takes fewer contributors has room for as many: the log refuses some of them."""

_OTHER_RECORDS = 16  # of results, of the re-fit, of files of examples
_ROLES: dict[str, KeyRole] = {
    objects.RECORD: "gate",
    objects.CLOSE: "log",
    objects.LOT: "log",
    objects.REFUSAL: "log",
    objects.RESULT: "log",
    objects.VOID: "log",
}
_ONCE = {objects.COMMIT, objects.REVEAL}


class Inbox:
    """The inbox of a round; what was there when the server started counts, too."""

    def __init__(self, latest: Latest) -> None:
        self._latest, self._lock = latest, threading.Lock()
        self._storage = latest.kept.storage
        self._used = Counter[str]()
        self._left: dict[tuple[str, PublicKey], str] = {}
        for name, entry in left_entries(self._storage):
            if isinstance(entry, Signed):
                self._used[entry.context] += len(objects.encode(entry))
                self._left.setdefault((entry.context, entry.key), name)

    @contextmanager
    def booked(self, role: Role, file: str, entry: Signed) -> Generator[None]:
        """Books an entry while it is stored.

        Raises:
            RefusedError: with status 422 if the log can never take it, or the inbox has another one
                of its key; 507 if there is no room for it.
        """
        size, kind = len(objects.encode(entry)), (entry.context, entry.key)
        with self._lock:
            state = self._latest.state()
            check_entry(state, entry)
            first = self._left.get(kind) if entry.context in _ONCE else None
            if first not in {None, file} and self._storage.size(str(first)) is not None:
                raise RefusedError(
                    422,
                    f"{entry.context}: expected one of key {entry.key.fingerprint}, which is in "
                    "the inbox, got another",
                )
            most = most_bytes(state, entry.context)
            if role is Role.CONTRIBUTOR and most is not None:
                if self._used[entry.context] + size > most:
                    raise RefusedError(
                        507, f"inbox: expected at most {most} bytes of {entry.context}, got more"
                    )
                self._used[entry.context] += size
            self._left[kind] = file
        try:
            yield
        except GymError:
            with self._lock:
                if role is Role.CONTRIBUTOR and most is not None:
                    self._used[entry.context] -= size
                if self._left.get(kind) == file:
                    del self._left[kind]
            raise


def check_entry(state: State, entry: Signed) -> None:
    """Refuses an entry that the log of a round can never take; what it has already is accepted.

    Raises:
        RefusedError: with status 422.
    """
    role = _ROLES.get(entry.context)
    if role is not None and entry.key not in state.manifest.keys_of(role):
        raise RefusedError(
            422,
            f"{entry.context}: expected a signature of a key of role {role}, got one of "
            f"{entry.key.fingerprint}",
        )
    if _is_logged(state, entry):
        return
    if state.closed:
        raise RefusedError(
            422, f"{entry.context}: expected a round that goes on, got one that is {state.phase}"
        )
    if role is not None:
        return
    early = entry.context == objects.REVEAL and state.phase is Phase.COMMIT
    try:
        (replace(state, phase=Phase.REVEAL) if early else state).after(entry)
    except InputError as error:
        raise RefusedError(422, error.message, hint=error.hint) from None


def _is_logged(state: State, entry: Signed) -> bool:
    """Says whether the log has a commitment or a reveal."""
    if entry.context == objects.COMMIT:
        return state.commits.get(entry.key) == entry.body.get("commitment", "")
    if entry.context == objects.REVEAL:
        known = state.reveals.get(entry.key)
        return known is not None and known == objects.reveal_of(entry)
    return False


def most_bytes(state: State, context: str) -> int | None:
    """Returns how many bytes of a kind of entry an inbox has room for; None if no limit is needed.

    Reveals need none: each is of another key that has committed.
    """
    terms = state.manifest
    if context == objects.COMMIT:
        most = terms.most * (1 if terms.newcomers is None else 2)
        return max(most, LEAST_COMMITS) * COMMIT_BYTES
    if context == objects.RECORD:
        each = terms.lessons.most if terms.lessons else 2  # its measurement and its value
        records = len(state.commits) * each + _OTHER_RECORDS
        return len(terms.keys_of("gate")) * records * ENTRY_BYTES
    return None


RESERVE = 10
"""The tenth part of a server's bytes is for what makers write: logs and results."""

EXAMPLES_BYTES = 64 << 20
"""Bytes for each file of examples that a gate shows, which may have a contributor's token."""

_LISTED_BYTES = 67  # a digest in the list of chunks
_USEFUL = {Phase.REVEAL, Phase.COMPUTE, Phase.PUBLISHED}


class Quota:
    """The chunks of a round that came from contributors.

    What was there when the server started counts, too: who stored it is not known any more.
    """

    def __init__(self, latest: Latest) -> None:
        self._latest, self._lock = latest, threading.Lock()
        folder = latest.kept.storage.folder / "chunks"
        with read_errors(folder):
            self._used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    @contextmanager
    def booked(self, role: Role, size: int) -> Generator[None]:
        """Books a chunk of a contributor while it is stored.

        Raises:
            RefusedError: the round has no use for chunks now, or has as many as it can use.
        """
        if role is not Role.CONTRIBUTOR:
            yield
            return
        with self._lock:
            state = self._latest.state()
            if state.phase not in _USEFUL:
                raise RefusedError(
                    409, f"chunk: expected one after phase commit, got one in phase {state.phase}"
                )
            most = _most(state)
            if self._used + size > most:
                raise RefusedError(
                    507,
                    f"chunks: expected at most {most} bytes of the round's contributors, got more",
                )
            self._used += size
        try:
            yield
        except RefusedError:
            with self._lock:
                self._used -= size
            raise


def _most(state: State) -> int:
    file_bytes = state.manifest.caps.file_bytes
    each = file_bytes + _LISTED_BYTES * -(-file_bytes // CHUNK_BYTES) + 1
    return len(state.commits) * each + len(examples_of(state.manifest)) * EXAMPLES_BYTES
