"""A queue in an SQL database; what differs between databases is a `Dialect`."""

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.rounds.work.queue import LEASE_S, Progress, Task

TABLES = (
    "CREATE TABLE IF NOT EXISTS jobs (place INTEGER_KEY, job TEXT UNIQUE NOT NULL, "
    "description BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tasks (job TEXT NOT NULL, number INTEGER NOT NULL, "
    "worker TEXT, until_s DOUBLE PRECISION NOT NULL DEFAULT 0, error TEXT, content BLOB, "
    "PRIMARY KEY (job, number))",
)


@dataclass(frozen=True)
class Dialect:
    """How a database is spoken to.

    Attributes:
        now_s: an expression for its own clock, in seconds.
        skip: what makes concurrent claims pass over rows that another one holds.
        mark: the placeholder of a parameter.
        alone: what keeps others from creating the tables at the same time; empty if nothing is
            needed.
        types: the names of types in `TABLES` that differ.
    """

    now_s: str
    skip: str
    mark: str
    alone: str
    types: tuple[tuple[str, str], ...]

    def of(self, statement: str) -> str:
        """Returns a statement of ours in this dialect."""
        for ours, theirs in self.types:
            statement = statement.replace(ours, theirs)
        return (
            statement.replace("NOW_S", self.now_s)
            .replace("SKIP", self.skip)
            .replace("?", self.mark)
        )


class SqlQueue:
    """A queue over a connection of Python's database interface, see `Queue`.

    Args:
        connection: the connection, which commits each statement or transaction.
        dialect: how the database is spoken to.
        transaction: makes statements one.
        errors: turns errors of the database into ours.
    """

    def __init__(
        self,
        connection: Any,  # noqa: ANN401 - each driver has its own class
        dialect: Dialect,
        transaction: Callable[[], Any],
        errors: Callable[[], Any],
    ) -> None:
        self._connection, self._dialect = connection, dialect
        self._transaction, self._errors = transaction, errors
        with self._changing():
            for statement in filter(None, (dialect.alone, *TABLES)):
                self._run(statement)

    def add(self, job: str, description: bytes, tasks: int) -> None:
        """Adds a job; see `Queue.add`."""
        with self._changing():
            self._run(
                "INSERT INTO jobs (job, description) VALUES (?, ?) ON CONFLICT DO NOTHING",
                job,
                description,
            )
            for number in range(tasks):
                self._run(
                    "INSERT INTO tasks (job, number) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    job,
                    number,
                )

    def description(self, job: str) -> bytes:
        """Returns the description of a job; see `Queue.description`."""
        rows = self._read("SELECT description FROM jobs WHERE job = ?", job)
        if not rows:
            raise NotAvailableError(f"queue: expected job {job[:12]}, got none")
        return bytes(rows[0][0])

    def claim(
        self, scope: str, worker: str, lease_s: float = LEASE_S, without: Collection[str] = ()
    ) -> Task | None:
        """Leases a task; see `Queue.claim`."""
        others = f"AND tasks.job NOT IN ({', '.join('?' * len(without))})" if without else ""
        free = (
            "SELECT tasks.job, number FROM tasks JOIN jobs ON jobs.job = tasks.job "
            "WHERE substr(tasks.job, 1, LENGTH) = ? AND content IS NULL AND error IS NULL "
            "AND until_s < NOW_S AND NOT EXISTS "
            "(SELECT 1 FROM tasks AS other WHERE other.job = tasks.job AND error IS NOT NULL) "
            "OTHERS ORDER BY place, number LIMIT 1 SKIP"
        )
        free = free.replace("LENGTH", str(len(scope))).replace("OTHERS", others)
        with self._changing():
            rows = self._run(free, scope, *without).fetchall()
            if not rows:
                return None
            task = Task(str(rows[0][0]), int(rows[0][1]))
            self._run(
                "UPDATE tasks SET worker = ?, until_s = NOW_S + ? WHERE job = ? AND number = ?",
                worker,
                lease_s,
                task.job,
                task.number,
            )
        return task

    def renew(self, task: Task, worker: str, lease_s: float = LEASE_S) -> bool:
        """Extends a lease; see `Queue.renew`."""
        with self._changing():
            found = self._run(
                "UPDATE tasks SET until_s = NOW_S + ? WHERE job = ? AND number = ? "
                "AND worker = ? AND content IS NULL",
                lease_s,
                task.job,
                task.number,
                worker,
            )
            return bool(found.rowcount)

    def give_back(self, task: Task, worker: str) -> None:
        """Ends a lease; see `Queue.give_back`."""
        with self._changing():
            self._run(
                "UPDATE tasks SET worker = NULL, until_s = 0 WHERE job = ? AND number = ? "
                "AND worker = ?",
                task.job,
                task.number,
                worker,
            )

    def finish(self, task: Task, content: bytes) -> None:
        """Stores the result of a task; see `Queue.finish`."""
        with self._changing():
            self._run(
                "UPDATE tasks SET content = ?, error = NULL WHERE job = ? AND number = ? "
                "AND content IS NULL",
                content,
                task.job,
                task.number,
            )
        stored = self._content(task)
        if stored is not None and stored != content:
            raise InputError(
                f"task {task.number} of job {task.job[:12]}: expected the bytes that another "
                "worker has computed, got others",
                hint="the workers run different versions, or one of their machines is faulty",
            )

    def fail(self, task: Task, message: str) -> None:
        """Stores why a task cannot be done; see `Queue.fail`."""
        with self._changing():
            self._run(
                "UPDATE tasks SET error = ? WHERE job = ? AND number = ? AND content IS NULL",
                message,
                task.job,
                task.number,
            )

    def result(self, task: Task) -> bytes:
        """Returns the result of a task; see `Queue.result`."""
        content = self._content(task)
        if content is None:
            raise NotAvailableError(f"queue: expected a result of task {task.number}, got none")
        return content

    def progress(self, job: str) -> Progress:
        """Returns how far a job is; see `Queue.progress`."""
        counts = self._read("SELECT COUNT(*), COUNT(content) FROM tasks WHERE job = ?", job)
        errors = self._read(
            "SELECT error FROM tasks WHERE job = ? AND error IS NOT NULL ORDER BY number", job
        )
        return Progress(int(counts[0][0]), int(counts[0][1]), [str(row[0]) for row in errors])

    def remove(self, job: str) -> None:
        """Deletes a job; see `Queue.remove`."""
        with self._changing():
            self._run("DELETE FROM tasks WHERE job = ?", job)
            self._run("DELETE FROM jobs WHERE job = ?", job)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    @contextmanager
    def _changing(self) -> Generator[None]:
        with self._errors(), self._transaction():
            yield

    def _content(self, task: Task) -> bytes | None:
        """Returns the result of a task; None without one, or without the task."""
        rows = self._read(
            "SELECT content FROM tasks WHERE job = ? AND number = ?", task.job, task.number
        )
        return None if not rows or rows[0][0] is None else bytes(rows[0][0])

    def _read(self, statement: str, *values: object) -> list[Any]:
        with self._changing():
            return list(self._run(statement, *values).fetchall())

    def _run(self, statement: str, *values: object) -> Any:  # noqa: ANN401 - as the driver has it
        return self._connection.execute(self._dialect.of(statement), values)
