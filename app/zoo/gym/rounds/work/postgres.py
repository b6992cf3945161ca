"""A queue in a Postgres database, for the processes of several machines.

Claims take rows that no other claim holds (`FOR UPDATE SKIP LOCKED`), and leases run by the
server's clock.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import NotAvailableError, StorageError
from zoo.gym.rounds.work.queue import ConnectionLostError
from zoo.gym.rounds.work.sql import Dialect, SqlQueue

_DIALECT = Dialect(
    now_s="extract(epoch FROM clock_timestamp())",
    skip="FOR UPDATE OF tasks SKIP LOCKED",
    mark="%s",
    alone="SELECT pg_advisory_xact_lock(8030261815)",
    types=(("INTEGER_KEY", "BIGSERIAL PRIMARY KEY"), ("BLOB", "BYTEA")),
)


def postgres_queue(address: str) -> SqlQueue:
    """Opens a queue; its tables are created if they are missing.

    Args:
        address: such as `postgresql://user@host/database`.

    Raises:
        NotAvailableError: psycopg is not installed.
        ConnectionLostError: no server answers.
        StorageError: the server refuses.
    """
    try:
        import psycopg
    except ImportError:
        raise NotAvailableError(
            "queue: expected psycopg for a queue in Postgres, got no such package",
            hint=install_command("rounds"),
        ) from None

    @contextmanager
    def errors() -> Generator[None]:
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise ConnectionLostError(f"queue: the server does not answer: {error}") from error
        except psycopg.Error as error:
            raise StorageError(f"queue: {error}") from error

    with errors():
        connection: Any = psycopg.connect(address, autocommit=True)
    return SqlQueue(connection, _DIALECT, connection.transaction, errors)
