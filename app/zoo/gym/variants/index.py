"""The list of variants, page by page, through an index in SQLite.

The index has nothing that the folders do not: it may be deleted at any time. A folder whose time of
change is not the indexed one is looked at again, and an index that cannot be read is made anew. A
file that is changed in place, as nothing here does, keeps its size and date in the list.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError
from zoo.gym.paths import PRIVATE_FILE, make_folder
from zoo.gym.variants.store import ENDING, NAME, Stored, bases, folder_called, root

if TYPE_CHECKING:
    from sqlite_utils import Database

SCHEMA = 1
"""Increased with every change of the columns."""

SETTLED_NS = 2_000_000_000
"""Age of a folder's time of change from which on a later change has another one, on any disk."""

_TABLES = f"""
DROP TABLE IF EXISTS variants;
DROP TABLE IF EXISTS folders;
CREATE TABLE variants (base TEXT, name TEXT, bytes INTEGER, modified REAL, PRIMARY KEY (base, name))
WITHOUT ROWID;
CREATE TABLE folders (base TEXT PRIMARY KEY, changed_ns INTEGER);
PRAGMA user_version = {SCHEMA};
"""
_PAGE = """
SELECT base, name, bytes, modified FROM variants WHERE (base, name) > (?, ?)
ORDER BY base, name LIMIT ?
"""


@dataclass(frozen=True)
class Row:
    """A variant in the list.

    Attributes:
        base: what its base is called.
        name: the name of its user.
        bytes: the size of its file.
        modified: when it was written, Unix seconds.
    """

    base: str
    name: str
    bytes: int
    modified: float

    @property
    def stored(self) -> Stored:
        """The variant."""
        return Stored(self.base, self.name, folder_called(self.base) / f"{self.name}{ENDING}")


def page(limit: int, after: str | None = None) -> list[Row]:
    """Returns variants sorted by base and name.

    Args:
        limit: how many at most.
        after: the id of the one before the first; None starts at the first.

    Raises:
        InputError: `limit` is below 1, or `after` is no id.
    """
    if limit < 1:
        raise InputError(f"limit: expected at least 1, got {limit}", code="variants.bad_page")
    base, colon, name = (":" if after is None else after).rpartition(":")
    if not colon:
        raise InputError(f"after: expected BASE:NAME, got {after!r:.100}", code="variants.bad_page")
    file = root().with_suffix(".db")
    for path in (file, file, None):  # one that is damaged is made anew, or else in memory
        try:
            with _opened(path) as database:
                _synchronise(database)
                # tables of sqlite-utils read the schema each time: twice the time of this
                rows = database.execute(_PAGE, [base, name, limit])
                return [Row(*row) for row in rows]
        except (sqlite3.Error, OSError):
            if path is None:
                raise
            with suppress(OSError):
                path.unlink()
    raise AssertionError


@contextmanager
def _opened(path: Path | None) -> "Generator[Database]":
    from sqlite_utils import Database

    if path is None:
        database = Database(memory=True, execute_plugins=False)
    else:
        if not path.is_file():  # looking at all folders above takes longer than reading a page
            make_folder(path.parent)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
        database = Database(path, execute_plugins=False)
    with closing(database):
        if database.execute("PRAGMA user_version").fetchone() != (SCHEMA,):
            database.executescript(_TABLES)
        yield database


def _synchronise(database: "Database") -> None:
    """Makes the rows those of the folders."""
    indexed: dict[str, int] = dict(database.execute("SELECT base, changed_ns FROM folders"))
    here = {label: entry.stat().st_mtime_ns for label, entry in bases().items()}
    for label in indexed.keys() - here.keys():
        database.table("variants").delete_where("base = ?", [label])
        database.table("folders").delete(label)
    for label, changed_ns in here.items():
        if indexed.get(label) != changed_ns:
            # else a file that comes in the same tick of the disk's clock would never be seen
            is_settled = time.time_ns() - changed_ns > SETTLED_NS
            _read_folder(database, label, changed_ns if is_settled else 0)


def _read_folder(database: "Database", label: str, changed_ns: int) -> None:
    with database.conn:
        known = database.execute("SELECT * FROM variants WHERE base = ?", [label])
        rows = {row[1]: row for row in known}
        files = {row[1]: row for row in _files(label)}
        for name in rows.keys() - files.keys():
            database.table("variants").delete((label, name))
        new = (row for name, row in files.items() if rows.get(name) != row)
        database.conn.executemany("INSERT OR REPLACE INTO variants VALUES (?, ?, ?, ?)", new)
        database.table("folders").insert({"base": label, "changed_ns": changed_ns}, replace=True)


def _files(label: str) -> Iterator[tuple[str, str, int, float]]:
    with os.scandir(folder_called(label)) as entries:
        for entry in entries:
            name = entry.name.removesuffix(ENDING)
            if name != entry.name and NAME.fullmatch(name):
                status = entry.stat()
                yield label, name, status.st_size, status.st_mtime
