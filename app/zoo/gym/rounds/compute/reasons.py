"""Why contributions do not count: in the same words on every machine.

A file that was not stored when the result was computed may be stored later. So readers take that
reason from the log, and compute all others again: nobody can change a published round afterwards.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.rounds.protocol.fields import as_text
from zoo.gym.rounds.protocol.objects import Reveal
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, fetch_new
from zoo.gym.signing import PublicKey

Contribution = TypeVar("Contribution")

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


def fetch_all(
    state: State, storage: Storage, folder: Path, opened: Callable[[Path], Contribution]
) -> tuple[list[tuple[PublicKey, Contribution]], dict[PublicKey, str]]:
    """Fetches what was revealed; files that are in the folder already are not fetched again.

    Args:
        state: of a round whose reveals are closed.
        storage: where the chunks are.
        folder: of this round on this machine.
        opened: opens a file that the round allows.

    Returns:
        Whose files the round allows, in the order of their digests, of equal ones the earlier
        commitment first; and why those of others do not count.

    Raises:
        StorageError: the storage cannot be read, or a file not be written: nobody is refused.
    """
    position = {key: number for number, key in enumerate(state.commits)}
    shown = sorted(state.reveals, key=lambda key: (state.reveals[key].digest, position[key]))
    found: list[tuple[PublicKey, Contribution]] = []
    refused = refused_by_word(state)
    for key in (key for key in shown if key not in refused):
        reveal = state.reveals[key]
        try:
            fetch_revealed(reveal, storage, folder / reveal.digest)
            found.append((key, opened(folder / reveal.digest)))
        except (InputError, NotAvailableError) as error:
            refused[key] = reason_of(error)
    return found, refused


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
