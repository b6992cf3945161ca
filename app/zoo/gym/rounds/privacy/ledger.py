"""The ledger of privacy: what every drawn noise has spent, for each contributor.

A spending is on disk (`synchronous=FULL`) before its noise is drawn, and nothing gives it back: a
program that is killed in between has spent it. What was drawn for a round and published is one
result; another one is never drawn for it.
"""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from zoo.gym.errors import StorageError
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.protocol.privacy import epsilon_for, together

WAIT_S = 60.0

_TABLES = """
CREATE TABLE IF NOT EXISTS draws (
    round TEXT NOT NULL, number INTEGER NOT NULL, report TEXT, PRIMARY KEY (round, number)
) STRICT;
CREATE TABLE IF NOT EXISTS spent (
    round TEXT NOT NULL, number INTEGER NOT NULL, contributor TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, noise REAL NOT NULL,
    PRIMARY KEY (round, number, contributor)
) STRICT;
"""


@dataclass(frozen=True)
class Spending:
    """What one draw tells about one contributor.

    Attributes:
        noise: standard deviation over the largest contribution.
    """

    epsilon: float
    delta: float
    noise: float


@dataclass(frozen=True)
class Spent:
    """What a contributor has spent in all rounds.

    Attributes:
        contributor: the key as text.
        draws: how often noise was drawn; more than rounds if a program was cut.
        epsilon: of all draws together, at `delta`.
        delta: the largest of the rounds.
    """

    contributor: str
    rounds: int
    draws: int
    epsilon: float
    delta: float


def spend(round_id: str, contributors: Sequence[str], what: Spending) -> int:
    """Books a draw for contributors, durably, before it is made; returns its number.

    Raises:
        StorageError: it cannot be booked: nothing may be drawn then.
    """
    with _ledger() as db:
        (last,) = db.execute(
            "SELECT coalesce(max(number), 0) FROM draws WHERE round = ?", (round_id,)
        ).fetchone()
        number = int(last) + 1
        db.execute("INSERT INTO draws VALUES (?, ?, NULL)", (round_id, number))
        _book(db, round_id, number, contributors, what)
    return number


def note_own(round_id: str, contributor: str, what: Spending) -> None:
    """Books what a contribution of one's own will spend; the aggregator's first draw is the same.

    Raises:
        StorageError: it cannot be booked.
    """
    with _ledger() as db:
        _book(db, round_id, 1, [contributor], what)


def settle(round_id: str, number: int, report: str) -> None:
    """Names the report of a draw, durably, before anything of it leaves the machine.

    Raises:
        StorageError: it cannot be written.
    """
    with _ledger() as db:
        db.execute(
            "UPDATE draws SET report = ? WHERE round = ? AND number = ?", (report, round_id, number)
        )


def report_of(round_id: str) -> str | None:
    """Returns the digest of the report of what was drawn for a round; None if nothing was settled.

    Raises:
        StorageError: the ledger cannot be read.
    """
    with _ledger() as db:
        row = db.execute(
            "SELECT report FROM draws WHERE round = ? AND report IS NOT NULL", (round_id,)
        ).fetchone()
    return str(row[0]) if row else None


def all_spent(contributor: str | None = None, *, but: str | None = None) -> list[Spent]:
    """Returns what each contributor has spent, by key as text; one of them if it is named.

    Raises:
        StorageError: the ledger cannot be read.
    """
    with _ledger() as db:
        rows = db.execute("SELECT contributor, round, delta, noise FROM spent").fetchall()
    by_key: dict[str, list[tuple[str, float, float]]] = {}
    for key, round_id, delta, noise in rows:
        if contributor in {None, key} and round_id != but:
            by_key.setdefault(key, []).append((round_id, delta, noise))
    spent: list[Spent] = []
    for key, draws in sorted(by_key.items()):
        delta = max(delta for _, delta, _ in draws)
        noise = together(noise for _, _, noise in draws)
        rounds = len({round_id for round_id, _, _ in draws})
        spent.append(Spent(key, rounds, len(draws), epsilon_for(noise, delta), delta))
    return spent


def _book(
    db: sqlite3.Connection, round_id: str, number: int, keys: Sequence[str], what: Spending
) -> None:
    db.executemany(
        "INSERT OR IGNORE INTO spent VALUES (?, ?, ?, ?, ?, ?)",
        [(round_id, number, key, what.epsilon, what.delta, what.noise) for key in keys],
    )


@contextmanager
def _ledger() -> Generator[sqlite3.Connection]:
    """Yields the open ledger in one transaction that is on disk when the block ends."""
    path = ensure_folder(folders().data / "rounds") / "privacy.sqlite3"
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = ON")  # on macOS, where a plain sync does not wait
            db.execute("BEGIN IMMEDIATE")
            for statement in filter(str.strip, _TABLES.split(";")):
                db.execute(statement)
            yield db
            db.execute("COMMIT")
    except sqlite3.Error as error:
        raise StorageError(
            f"{path}: cannot use the ledger of privacy: {error}", code="rounds.ledger_failed"
        ) from error
