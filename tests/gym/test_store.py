import dataclasses
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.gym.store import RunIndex, RunRow

ROW = RunRow(
    *("r0001", "done", 3, None, None, "zen-pico", 1.5, 2.5, "/r", None, None, 3),
    *("grpo", "reward", -0.5, -0.75, 99, 7),
)


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW])
    with RunIndex(tmp_path / "i.db") as index:
        assert index.rows() == {"r0001": ROW}


def test_a_row_stored_again_replaces_the_first(tmp_path: Path) -> None:
    changed = dataclasses.replace(ROW, state="failed", pid=77)
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW])
        index.update([changed])
        assert index.rows() == {"r0001": changed}


def test_rows_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW])
        index.update([], gone=["r0001"])
        assert index.rows() == {}


def test_the_files_of_the_index_are_in_wal_mode(tmp_path: Path) -> None:
    with RunIndex(tmp_path / "i.db"):
        pass
    database = sqlite3.connect(tmp_path / "i.db")
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


@pytest.mark.parametrize(
    "spoil",
    ["PRAGMA user_version = 99", "DROP TABLE runs", "ALTER TABLE runs RENAME COLUMN step TO x"],
)
def test_an_index_of_another_form_is_made_anew(tmp_path: Path, spoil: str) -> None:
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW])
    database = sqlite3.connect(tmp_path / "i.db")
    database.execute(spoil)
    database.commit()
    database.close()
    with RunIndex(tmp_path / "i.db") as index:
        assert index.rows() == {}
        index.update([ROW])
        assert index.rows() == {"r0001": ROW}


def test_a_file_that_is_no_database_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "i.db").write_bytes(b"garbage" * 999)
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW])
    with RunIndex(tmp_path / "i.db") as index:
        assert index.rows() == {"r0001": ROW}


def test_a_place_that_cannot_be_written_gives_an_index_in_memory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with RunIndex(tmp_path / "data" / "i.db") as index:
        index.update([ROW])
        assert index.rows() == {"r0001": ROW}
    assert (tmp_path / "data").read_text() == "a file"


def test_an_index_that_another_process_holds_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW])
    monkeypatch.setattr("zoo.gym.store._BUSY_S", 0.0)
    holder = sqlite3.connect(tmp_path / "i.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with RunIndex(tmp_path / "i.db") as index:
        assert index.rows() == {}
    holder.execute("ROLLBACK")
    holder.close()
    with RunIndex(tmp_path / "i.db") as index:
        assert index.rows() == {"r0001": ROW}


@pytest.mark.parametrize(
    "spoil",
    ["step = 'x'", "offset = -1", "offset = NULL", "updated = 'a'", "state = x'00ff'", "pid = 1.5"],
)
def test_a_damaged_row_is_not_known_and_the_others_are(tmp_path: Path, spoil: str) -> None:
    other = dataclasses.replace(ROW, id="r0002")
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW, other])
    database = sqlite3.connect(tmp_path / "i.db")
    database.execute(f"UPDATE runs SET {spoil} WHERE id = 'r0001'")
    database.commit()
    database.close()
    with RunIndex(tmp_path / "i.db") as index:
        assert index.rows() == {"r0002": other}


@pytest.mark.parametrize("where", ["_connect", "_connect_anew"])
def test_a_full_disk_gives_an_index_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (tmp_path / "i.db").write_bytes(b"damaged" * 999)

    def full(_: RunIndex) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(RunIndex, where, full)
    with RunIndex(tmp_path / "i.db") as index:
        index.update([ROW])
        assert index.rows() == {"r0001": ROW}


@pytest.mark.slow
def test_listing_runs_imports_nothing_heavy() -> None:
    code = (
        "import sys, zoo.gym.jobs, zoo.gym.jobs.worker, zoo.gym.store\n"
        "heavy = {'numpy', 'torch', 'sqlite_utils', 'transformers', 'pydantic', 'textual'}\n"
        "sys.exit(' '.join(heavy & sys.modules.keys()) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
