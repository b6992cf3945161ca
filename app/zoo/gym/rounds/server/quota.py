"""How many bytes of chunks contributors may keep in a round: what its commitments can reveal.

All contributors of a server have one token, so what one of them stores in vain is missing to the
others of the same round; other rounds, and the round's maker, have their own part.
"""

import threading

from zoo.gym.files import read_errors
from zoo.gym.rounds.log.reader import CHECKPOINT, open_log
from zoo.gym.rounds.protocol.records import examples_of
from zoo.gym.rounds.protocol.state import Phase, State, state_of
from zoo.gym.rounds.server.heads import Kept
from zoo.gym.rounds.server.refused import RefusedError
from zoo.gym.rounds.storage.chunks import CHUNK_BYTES

RESERVE = 10
"""The tenth part of a server's bytes is for what makers write: logs and results."""

EXAMPLES_BYTES = 64 << 20
"""Bytes for each file of examples that a gate shows, which may have a contributor's token."""

_LISTED_BYTES = 67  # a digest in the list of chunks
_USEFUL = {Phase.REVEAL, Phase.COMPUTE, Phase.PUBLISHED}


def open_to_contributors(most_bytes: int) -> int:
    """Returns how many of a server's bytes contributors may fill."""
    return most_bytes - most_bytes // RESERVE


class Quota:
    """The chunks of a round that came from contributors.

    What was there when the server started counts, too: who stored it is not known any more.

    Args:
        kept: the round.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept, self._lock = kept, threading.Lock()
        self._note: bytes | None = None
        self._phase, self._most = Phase.COMMIT, 0
        folder = kept.storage.folder / "chunks"
        with read_errors(folder):
            self._used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def take(self, size: int) -> None:
        """Books a chunk.

        Raises:
            RefusedError: the round has no use for chunks now, or has as many as it can use.
        """
        with self._lock:
            self._read()
            if self._phase not in _USEFUL:
                raise RefusedError(
                    409,
                    f"chunk: expected one after phase commit, got one in phase {self._phase}",
                )
            if self._used + size > self._most:
                raise RefusedError(
                    507,
                    f"chunks: expected at most {self._most} bytes of the round's contributors, got "
                    "more",
                )
            self._used += size

    def give_back(self, size: int) -> None:
        """Takes back what was booked for a chunk that is not kept."""
        with self._lock:
            self._used -= size

    def _read(self) -> None:
        """Reads the log, if it has grown."""
        note = self._kept.storage.read(CHECKPOINT)
        head = None if note is None else self._kept.head(note)
        if head is None or note == self._note:
            return
        state = state_of(open_log(self._kept.storage.read, head).entries())
        self._phase, self._most = state.phase, _most(state)
        self._note = note


def _most(state: State) -> int:
    file_bytes = state.manifest.caps.file_bytes
    each = file_bytes + _LISTED_BYTES * -(-file_bytes // CHUNK_BYTES) + 1
    return len(state.commits) * each + len(examples_of(state.manifest)) * EXAMPLES_BYTES
