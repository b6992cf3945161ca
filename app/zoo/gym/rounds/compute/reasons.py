"""Why contributions do not count: in the same words on every machine.

A file that was not stored when the result was computed may be stored later. So readers take that
reason from the log, and compute all others again: nobody can change a published round afterwards.
"""

from pathlib import Path

from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.rounds.protocol.fields import as_text
from zoo.gym.rounds.protocol.objects import Reveal
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, fetch_new
from zoo.gym.signing import PublicKey

NOT_STORED = "not stored when the result was computed"


def fetch_revealed(reveal: Reveal, storage: Storage, path: Path) -> None:
    """Fetches a revealed file unless it is there, whole.

    Raises:
        NotAvailableError: it is not stored, or with other bytes.
        StorageError: the storage cannot be read, or the file not be written.
    """
    try:
        fetch_new(StoredFile(reveal.digest, reveal.bytes, reveal.chunks), storage, path)
    except (InputError, NotAvailableError) as error:
        said = error.message.removeprefix(f"{storage.address}: ")
        raise NotAvailableError(f"{NOT_STORED}: {said}") from None


def reason_of(error: GymError) -> str:
    """Returns why a contribution is refused, as any machine has it, and as the log may have it.

    It may quote what the contributor sent, so that nothing can be taken out of it: an error of a
    contribution has no path, and quotes with `quoted`.
    """
    return as_text(error.message)


def refused_by_word(state: State) -> dict[PublicKey, str]:
    """Returns the refusals of files that were not stored: by the word of the log's writer alone."""
    return {
        key: reason
        for key, reason in state.refused.items()
        if reason.startswith(NOT_STORED) and key not in state.gate_refusals
    }
