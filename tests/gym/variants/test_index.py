"""The list is that of the folders, whatever became of its index."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.paths import ensure_folder
from zoo.gym.variants import index
from zoo.gym.variants.store import folder_called, root


def touch(base: str, *names: str) -> Path:
    folder = ensure_folder(folder_called(base))
    for name in names:
        (folder / f"{name}.safetensors").touch()
    return folder


def settle(*folders: Path) -> None:
    """Makes folders look as if nothing had changed in them for long."""
    long_ago = time.time() - 100
    for folder in folders:
        os.utime(folder, (long_ago, long_ago))


def ids(limit: int = 50, after: str | None = None) -> list[str]:
    return [row.stored.id for row in index.page(limit, after)]


def test_a_list_has_pages_over_all_bases() -> None:
    touch("zen-pico", "b", "a")
    touch("org/base", "c", "a")
    everything = ["org/base:a", "org/base:c", "zen-pico:a", "zen-pico:b"]
    assert ids() == everything
    assert ids(3) == everything[:3]
    assert ids(3, everything[2]) == everything[3:]
    assert ids(3, "org/base:b") == everything[1:]
    for limit, after in ((0, None), (1, "zen-pico")):
        with raises("variants.bad_page", "expected"):
            index.page(limit, after)


def test_other_files_are_no_variants() -> None:
    folder = touch("zen-pico", "a", ".hidden", "Ann")
    (folder / "b.txt").touch()
    assert ids() == ["zen-pico:a"]


def test_what_others_change_in_a_folder_is_seen() -> None:
    folder = touch("zen-pico", "a", "b")
    settle(folder)
    assert ids() == ["zen-pico:a", "zen-pico:b"]
    (folder / "a.safetensors").unlink()
    (folder / "new").write_bytes(b"12")
    (folder / "new").rename(folder / "b.safetensors")
    touch("zen-pico", "c")
    assert [(row.name, row.bytes) for row in index.page(9)] == [("b", 2), ("c", 0)]
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert ids() == []


def test_a_folder_that_did_not_change_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settle(touch("zen-pico", "a"))
    assert ids() == ["zen-pico:a"]
    monkeypatch.setattr(index, "_read_folder", None)
    assert ids() == ["zen-pico:a"]


def test_a_change_right_after_a_list_is_seen_however_coarse_the_clock_is() -> None:
    folder = touch("zen-pico", "a")
    stamp = folder.stat().st_mtime_ns
    assert ids() == ["zen-pico:a"]
    touch("zen-pico", "b")
    os.utime(folder, ns=(stamp, stamp))  # as a disk has it that counts whole seconds
    assert ids() == ["zen-pico:a", "zen-pico:b"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


def overwrite(file: Path) -> None:
    file.write_bytes(b"no database at all" * 1000)


def drop_a_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("DROP TABLE variants")


def age(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.executescript("DROP TABLE variants; PRAGMA user_version = 0")


def make_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, cut, overwrite, drop_a_table, age, make_a_folder],
    ids=lambda f: f.__name__,
)
def test_an_index_that_cannot_be_read_is_made_anew(damage: Callable[[Path], object]) -> None:
    settle(touch("zen-pico", *(f"user-{n}" for n in range(200))))
    expected = ids(1000)
    damage(root().with_suffix(".db"))
    assert ids(1000) == expected
    assert ids(1000) == expected
