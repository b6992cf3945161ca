"""A queue in a file, for the processes of one machine.

Every change is on disk when it is acknowledged (`synchronous=FULL`), and a claim takes the write
lock first (`BEGIN IMMEDIATE`), so that no two workers get one task.
"""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from zoo.gym.errors import StorageError
from zoo.gym.rounds.work.sql import Dialect, SqlQueue

WAIT_S = 60.0
"""How long a process waits for another one's transaction."""

_DIALECT = Dialect(
    now_s="((julianday('now') - 2440587.5) * 86400.0)",
    skip="",
    mark="?",
    alone="",
    types=(("INTEGER_KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"),),
)


def sqlite_queue(path: Path) -> SqlQueue:
    """Opens a queue, which is created if there is none.

    Raises:
        StorageError: the file cannot be opened, or is no database.
    """
    with _our_errors(path):
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def transaction() -> Generator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    return SqlQueue(connection, _DIALECT, transaction, lambda: _our_errors(path))


@contextmanager
def _our_errors(path: Path) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"{path}: cannot use the queue: {error}") from error
