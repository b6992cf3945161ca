"""How many bytes of chunks contributors may keep in a round: what its commitments can reveal.

All contributors of a server have one token, so what one of them stores in vain is missing to the
others of the same round; other rounds, and the round's maker, have their own part. Entries have a
part of their own (`inbox`).
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from zoo.gym.files import read_errors
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.rounds.protocol.records import examples_of
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.latest import Latest
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
        latest: the round.
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
        self._take(size)
        try:
            yield
        except RefusedError:
            with self._lock:
                self._used -= size
            raise

    def _take(self, size: int) -> None:
        with self._lock:
            state = self._latest.state()
            if state.phase not in _USEFUL:
                raise RefusedError(
                    409,
                    f"chunk: expected one after phase commit, got one in phase {state.phase}",
                )
            most = _most(state)
            if self._used + size > most:
                raise RefusedError(
                    507,
                    f"chunks: expected at most {most} bytes of the round's contributors, got more",
                )
            self._used += size


def _most(state: State) -> int:
    file_bytes = state.manifest.caps.file_bytes
    each = file_bytes + _LISTED_BYTES * -(-file_bytes // CHUNK_BYTES) + 1
    return len(state.commits) * each + len(examples_of(state.manifest)) * EXAMPLES_BYTES
