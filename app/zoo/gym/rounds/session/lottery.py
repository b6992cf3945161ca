"""The maker's nonce of the lot among newcomers: kept on this machine until it is shown."""

import secrets
from contextlib import suppress
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.files import read_errors, read_small, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.protocol.objects import nonce_commitment


def new_nonce() -> str:
    """Makes and keeps a nonce, and returns the commitment to it.

    Raises:
        StorageError: it cannot be kept.
    """
    nonce = secrets.token_hex(32)
    commitment = nonce_commitment(nonce)
    path = _path(commitment)
    ensure_folder(path.parent)
    write_beside(path, nonce, sync=True)
    return commitment


def kept_nonce(commitment: str, void: str) -> str:
    """Returns the nonce of a commitment.

    Args:
        void: the command that makes the round void.

    Raises:
        InputError: it is not on this machine.
        StorageError: it cannot be read.
    """
    path = _path(commitment)
    with read_errors(path), suppress(FileNotFoundError):
        return read_small(path, most_bytes=100).decode()
    raise InputError(
        f"{path}: expected the nonce of the lot, got nothing",
        hint="it is on the machine where you ran zoo-gym round create; if it is lost, make the "
        f"round void: {void}",
        code="rounds.nonce_lost",
    )


def _path(commitment: str) -> Path:
    return folders().data / "rounds" / "lots" / commitment
