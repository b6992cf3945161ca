"""Opens the queue at an address: a file, or a Postgres database."""

from functools import partial

from zoo.gym.errors import InputError
from zoo.gym.paths import given_path
from zoo.gym.rounds.work.postgres import postgres_queue
from zoo.gym.rounds.work.sqlite import sqlite_queue
from zoo.gym.rounds.work.worker import Open

_POSTGRES = ("postgresql://", "postgres://")


def opener(address: str) -> Open:
    """Returns what opens a queue.

    Args:
        address: a file, or `postgresql://USER@HOST/DATABASE`.

    Raises:
        InputError: it is an address of another kind, or names a folder.
    """
    if address.startswith(_POSTGRES):
        return partial(postgres_queue, address)
    if "://" in address:
        raise InputError(
            f"--queue: expected a file or postgresql://..., got {address.partition('://')[0]}://..."
        )
    path = given_path(address)
    if path.is_dir():
        raise InputError(f"--queue: expected a file, got the folder {path}")
    return partial(sqlite_queue, path)
