"""The private half of a round's sealing key: one file on the maker's machine.

It opens every contribution, so it is deleted once the result is published: what was sealed stays
sealed, also for whoever gets into this machine later.
"""

import re
from contextlib import suppress
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import (
    read_errors,
    read_small,
    remove_file,
    storage_errors,
    sync_folder,
    write_beside,
)
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.privacy import sealing

_DIGITS = re.compile(r"[0-9a-f]{64}\n?")


def keep_round_key(private: bytes) -> str:
    """Keeps the private half of a key here, and returns the public one as text.

    Raises:
        StorageError: it cannot be written.
    """
    text = sealing.key_text(sealing.public_of(private))
    path = _path(text)
    ensure_folder(path.parent)
    write_beside(path, private.hex() + "\n", sync=True)
    return text


def load_round_key(text: str, void: str) -> bytes:
    """Returns the private half of a key.

    Args:
        text: the public half.
        void: the command that makes the round void.

    Raises:
        NotAvailableError: it is not on this machine.
        InputError: the file has another key.
    """
    path = _path(text)
    with read_errors(path):
        try:
            content = read_small(path, most_bytes=100).decode("ascii", "replace")
        except FileNotFoundError:
            raise NotAvailableError(
                f"{path}: expected the key that opens the round's contributions, got nothing",
                hint="it is on the machine that ran zoo-gym round create, until the result is out; "
                f"if it is lost, make the round void: {void}",
            ) from None
    found = bytes.fromhex(content) if _DIGITS.fullmatch(content) else b""
    if not found or sealing.key_text(sealing.public_of(found)) != text:
        raise InputError(f"{path}: expected the private half of {text}, got something else")
    return found


def forget_round_key(text: str) -> None:
    """Deletes the private half of a key; a missing one is accepted.

    Raises:
        StorageError: it cannot be deleted.
    """
    path = _path(text)
    with storage_errors(path), suppress(FileNotFoundError):
        remove_file(path)
        sync_folder(path.parent)


def _path(text: str) -> Path:
    return folders().data / "rounds" / "sealing" / f"{text.removeprefix('x25519:')}.key"
