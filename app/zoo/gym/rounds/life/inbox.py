"""The inbox of a round: entries that were left for the log's writer, among whatever else is there.

Systems put files of their own into folders that people share (`Thumbs.db`), and anybody who may
leave an entry may leave anything: what is no entry must not keep others from being taken.
"""

import re
from collections.abc import Collection, Iterator
from hashlib import sha256

from zoo.gym.errors import InputError, StorageError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import check_there
from zoo.gym.signing import Signed

INBOX = "inbox"
"""The folder of entries that were left for the writer."""

_ENTRY = re.compile(rf"{INBOX}/[a-z0-9][a-z0-9._-]{{0,150}}\.json", re.ASCII)


def inbox_name(content: bytes) -> str:
    """Returns the name of an entry in the inbox."""
    return f"{INBOX}/{sha256(content).hexdigest()}.json"


def left_entries(
    storage: Storage, known: Collection[bytes] = ()
) -> Iterator[tuple[str, Signed | StorageError | InputError]]:
    """Yields the entries in an inbox by name, in the order of the names.

    Of what cannot be read, or is no entry, it yields why. Names that no entry has are passed over.

    Args:
        storage: that of the round.
        known: entries that are passed over.

    Raises:
        GymError: the storage itself cannot be read, or is gone.
    """
    taken = {inbox_name(content) for content in known}  # are not read again
    for name in storage.names(INBOX):
        if name in taken or not _ENTRY.fullmatch(name):
            continue
        try:
            content = storage.read(name) or b""
        except StorageError as error:
            check_there(storage)
            yield name, error
            continue
        if content in known:
            continue
        try:
            yield name, objects.decode(content)
        except InputError as error:
            yield name, error
