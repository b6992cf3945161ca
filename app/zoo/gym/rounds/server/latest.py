"""The state of a round as its stored log has it, read again when the head has changed."""

import threading

from zoo.gym.rounds.log.reader import CHECKPOINT, open_log
from zoo.gym.rounds.protocol.state import State, state_of
from zoo.gym.rounds.server.heads import Kept


class Latest:
    """The latest state of a round.

    Args:
        kept: the round.
    """

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
            note = self.kept.storage.read(CHECKPOINT)
            head = None if note is None else self.kept.head(note)
            if head is not None and note != self._note:
                self._state = state_of(open_log(self.kept.storage.read, head).entries())
                self._note = note
            return self._state
