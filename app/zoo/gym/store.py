"""An index of the runs in SQLite, so that a list of them need not read every log again.

It contains nothing that the run folders do not: deleting the file only makes the next list slower.
A file from another version, or a damaged one, is dropped and rebuilt, so no migrations are needed
and the plain sqlite3 module is enough.
"""

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from types import NoneType, TracebackType
from typing import Self

from zoo.gym.paths import PRIVATE_FILE, folders, make_folder

SCHEMA = 5
"""Increased with every change of the columns."""

_BUSY_S = 2.0
_NOT_OURS = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY")  # not damaged
_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")  # not damaged either


@dataclass(frozen=True)
class RunRow:
    """One run in a list.

    Attributes:
        id: the run's id.
        state: queued, running, paused, done, failed or interrupted; damaged if no event can be
            read.
        step: the step of the run, see `zoo.gym.jobs.state.Status`.
        steps: the planned number of steps, None before the plan is known.
        pid: the process that works on it, None if there is none.
        model: the base model as written in the settings.
        created: Unix seconds of the first event.
        updated: Unix seconds of the last event.
        folder: the run folder.
        fault: what cannot be read and why; None for an intact run.
        request: "stop" or "park" if that ended an interrupted run, None for a killed run.
        saved: the step of the last checkpoint, 0 if there is none.
        stage: the training method in the settings, None if they cannot be read.
        decides: the name of the metric that the best step is chosen by, None before the plan.
        best: its best value on held-out rows, None before the first evaluation in training.
        saved_best: the same at the last checkpoint.
        offset: bytes of the event log read into this row.
        stamp: modification time of the run's settings in nanoseconds; it differs for another run.
    """

    id: str
    state: str
    step: int
    steps: int | None
    pid: int | None
    model: str | None
    created: float
    updated: float
    folder: str
    fault: str | None
    request: str | None
    saved: int
    stage: str | None
    decides: str | None
    best: float | None
    saved_best: float | None
    offset: int
    stamp: int

    def as_json(self) -> dict[str, object]:
        """Returns the fields for readers of the list, without the index's own bookkeeping."""
        names = [field.name for field in fields(self)][:-3]
        return {name: getattr(self, name) for name in names}


_COLUMNS = [field.name for field in fields(RunRow)]
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "state", "folder"), (str,)),
    **dict.fromkeys(("model", "fault", "request", "stage", "decides"), (str, NoneType)),
    **dict.fromkeys(("steps", "pid"), (int, NoneType)),
    **dict.fromkeys(("step", "saved", "offset", "stamp"), (int,)),
    **dict.fromkeys(("created", "updated"), (float,)),
    **dict.fromkeys(("best", "saved_best"), (float, NoneType)),
}
_SIGNED = frozenset({"best", "saved_best"})
_values = attrgetter(*_COLUMNS)  # `astuple` copies each value: a tenth of a listing
_CREATE = f"CREATE TABLE runs ({', '.join(_COLUMNS)}, PRIMARY KEY (id)) WITHOUT ROWID"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM runs"  # noqa: S608
_INSERT = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


class RunIndex:
    """An open index; a context manager.

    Args:
        path: the SQLite file, None for the user's own. If it cannot be opened or written, the
            index is kept in memory instead; a damaged file is replaced.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or folders().index
        self._database = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def rows(self) -> dict[str, RunRow]:
        """Returns every valid row by id; damaged rows are skipped."""
        try:
            rows = self._database.execute(_SELECT).fetchall()
        except sqlite3.DatabaseError:
            self._database.close()
            self._database = self._anew_or_in_memory()
            return {}
        return {row[0]: RunRow(*row) for row in rows if _is_sound(row)}

    def update(self, rows: Iterable[RunRow], gone: Iterable[str] = ()) -> None:
        """Stores rows and deletes the ids in `gone`, in one transaction."""
        with self._database:
            self._database.executemany(_INSERT, [_values(row) for row in rows])
            self._database.executemany("DELETE FROM runs WHERE id = ?", [(name,) for name in gone])

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except OSError:
            return _in_memory()
        except sqlite3.Error as error:
            # errors of the Python module itself have no name of SQLite's
            if str(getattr(error, "sqlite_errorname", "")).startswith(_NOT_OURS + _NO_ROOM):
                return _in_memory()
        return self._anew_or_in_memory()

    def _anew_or_in_memory(self) -> sqlite3.Connection:
        try:
            return self._connect_anew()
        except (OSError, sqlite3.Error):
            return _in_memory()

    def _connect(self) -> sqlite3.Connection:
        make_folder(self.path.parent)
        # SQLite gives its own files the same mode
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
        return _prepared(sqlite3.connect(self.path, timeout=_BUSY_S))

    def _connect_anew(self) -> sqlite3.Connection:
        for name in (self.path, Path(f"{self.path}-wal"), Path(f"{self.path}-shm")):
            name.unlink(missing_ok=True)
        return self._connect()


def _in_memory() -> sqlite3.Connection:
    return _prepared(sqlite3.connect(":memory:"))


def _is_sound(row: tuple[object, ...]) -> bool:
    """Returns whether each value has its column's type; SQLite stores any value in any column."""
    return all(
        isinstance(value, _KINDS[name])
        and not (isinstance(value, int | float) and value < 0 and name not in _SIGNED)
        for name, value in zip(_COLUMNS, row, strict=True)
    )


def _prepared(database: sqlite3.Connection) -> sqlite3.Connection:
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        with database:
            database.execute("BEGIN IMMEDIATE")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version != SCHEMA:
                database.execute("DROP TABLE IF EXISTS runs")
                database.execute(_CREATE)
                database.execute(f"PRAGMA user_version = {SCHEMA}")
            database.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.Error:
        database.close()
        raise
    return database
