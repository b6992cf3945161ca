"""One damaged run folder: the list names it, the other runs are as they were."""

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo.gym.errors import InputError
from zoo.gym.jobs import follow, launch, read_status, reconcile, resume, tail_events
from zoo.gym.jobs.events import EventReader
from zoo.gym.jobs.identity import read_identity
from zoo.gym.jobs.listing import list_runs
from zoo.gym.jobs.run import Run, create_run, run_folders
from zoo.gym.jobs.state import has_worker
from zoo.gym.paths import folders
from zoo.gym.train.run_folder.checkpoint import find_checkpoint

DEEP = b"[" * 100_000
Spoil = Callable[[Path], object]


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def bytes_of(content: bytes) -> Spoil:
    return lambda path: path.write_bytes(content)


def as_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def lost(path: Path) -> None:
    path.unlink()
    (path.parent / "worker.log").touch()


UNREADABLE: dict[str, Spoil] = {
    "folder": as_folder,
    "pipe": as_pipe,
    "loop": as_loop,
    "device": as_device,
}
LOGS = UNREADABLE | {
    "binary": bytes_of(bytes(range(256)) * 9),
    "deep": bytes_of(DEEP + b"\n"),
    "no line end": bytes_of(b"{"),
    "others": bytes_of(b'[1]\n{"a": 1}\n'),
    "absent": lost,
}
SETTINGS = UNREADABLE | {
    "binary": bytes_of(bytes(range(256))),
    "deep": bytes_of(DEEP),
    "number": bytes_of(b'model: !!int ""'),
    "date": bytes_of(b"model: 2020-99-99"),
    "key": bytes_of(b"? {a: 1}\n: 2"),
    "absent": Path.unlink,
}
IDENTITIES = UNREADABLE | {
    "deep": bytes_of(DEEP),
    "nan": bytes_of(b'{"pid": 1, "create_time": NaN}'),
    "huge": bytes_of(b'{"pid": 1, "create_time": 1' + b"0" * 400 + b"}"),
    "true": bytes_of(b'{"pid": true, "create_time": 1.0}'),
}


@pytest.fixture
def others(run: Run) -> list[Run]:
    """Two runs that are done, around the one that is damaged."""
    runs = [run, create_run("model_name_or_path: b\n", {})]
    for one in runs:
        one.events.emit("end", state="done", exit_code=0)
    return runs


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("spoil", LOGS.values(), ids=LOGS)
def test_a_run_whose_events_cannot_be_read_is_listed_as_damaged(
    others: list[Run], spoil: Spoil, indexed: bool
) -> None:
    damaged = create_run("model_name_or_path: b\n", {})
    if indexed:
        list_runs()
    spoil(damaged.events.path)
    rows = list_runs()
    assert [(row.id, row.state) for row in rows] == [
        *((damaged.id, "damaged"), ("r0002", "done"), ("r0001", "done"))
    ]
    assert str(rows[0].fault).startswith("events.jsonl: ")
    assert list_runs() == rows


@pytest.mark.slow
@pytest.mark.parametrize("spoil", SETTINGS.values(), ids=SETTINGS)
def test_a_run_whose_settings_cannot_be_read_says_so_in_the_list(run: Run, spoil: Spoil) -> None:
    run.events.emit("end", state="done", exit_code=0)
    spoil(run.config_file)
    [row] = list_runs()
    assert (row.state, row.model) == ("done", None)
    assert str(row.fault).startswith("config.yaml: ")


@pytest.mark.parametrize("spoil", IDENTITIES.values(), ids=IDENTITIES)
def test_an_identity_that_cannot_be_read_does_not_stop_the_list(run: Run, spoil: Spoil) -> None:
    spoil(run.identity_file)
    assert read_identity(run.identity_file) is None
    assert [row.state for row in list_runs()] == ["interrupted"]


def test_a_log_that_another_one_replaced_is_read_from_its_start(run: Run) -> None:
    run.events.emit("end", state="done", exit_code=0)
    list_runs()
    other = b'{"kind": "end", "t": 5.0, "state": "failed", "message": "' + b"x" * 999 + b'"}\n'
    run.events.path.write_bytes(other)
    [row] = list_runs()
    assert (row.state, row.created) == ("failed", 5.0)


def test_a_reader_says_that_a_log_was_replaced(run: Run) -> None:
    reader = EventReader(run.events.path)
    assert (len(reader.read()), reader.restarted) == (1, False)
    run.events.path.write_bytes(b'{"kind": "warn", "message": "' + b"x" * 999 + b'"}\n')
    assert (len(reader.read()), reader.restarted) == (1, True)
    assert (len(reader.read()), reader.restarted) == (0, False)


@pytest.mark.parametrize("at", [1e300, -1.0, float("nan"), 2**62, True, "now"])
def test_a_time_that_no_clock_shows_is_not_taken(run: Run, at: object) -> None:
    before = read_status(run).updated
    with run.events.path.open("a") as file:
        file.write(json.dumps({"kind": "warn", "t": at}) + "\n")
    assert read_status(run).updated == before


def test_a_full_disk_does_not_stop_the_list(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.identity_file.unlink()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def no_room(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("zoo.gym.jobs.events.EventLog._append", full)
    monkeypatch.setattr("zoo.gym.store.RunIndex.update", no_room)
    assert [row.state for row in list_runs()] == ["interrupted"]


def test_an_index_that_is_a_folder_does_not_stop_the_list(run: Run) -> None:
    folders().index.mkdir(parents=True)
    assert [row.id for row in list_runs()] == [run.id]


@pytest.mark.slow
@pytest.mark.parametrize("content", [DEEP, b'{"cwd": "\\ud800"}'])
def test_a_damaged_environment_does_not_stop_the_start_of_a_worker(
    run: Run, content: bytes
) -> None:
    run.env_file.write_bytes(content)
    launch(run, entry="entries:three")
    assert follow(run).state == "done"


@pytest.mark.slow
def test_a_run_that_lost_its_log_is_found_and_continues(
    run: Run, until: Callable[[Callable[[], bool]], None]
) -> None:
    launch(run, entry="entries:three")
    follow(run)
    until(lambda: not has_worker(run))  # the end is told before the process is gone
    run.events.path.unlink()
    assert [found.id for found in run_folders()] == [run.id]
    assert reconcile(run).state == "interrupted"
    resume(run, entry="entries:five_more")
    assert follow(run).state == "done"


@pytest.mark.slow
def test_a_resume_says_from_which_step_the_run_continues(
    run: Run, until: Callable[[Callable[[], bool]], None]
) -> None:
    launch(run, entry="entries:three")
    follow(run)
    until(lambda: not has_worker(run))
    run.events.emit("end", state="interrupted", exit_code=5)
    newest = find_checkpoint(run.checkpoints).folder
    assert newest is not None
    shutil.rmtree(newest)
    assert resume(run, entry="entries:three").step == 2
    assert follow(run).step == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.yaml", "env.json"])
def test_a_resume_of_a_damaged_run_is_refused_and_changes_nothing(run: Run, name: str) -> None:
    run.events.emit("end", state="interrupted", exit_code=5)
    (run.folder / name).write_bytes(DEEP)
    with pytest.raises(InputError, match=name):
        resume(run)
    assert len(tail_events(run.events.path)[0]) == 2
    shutil.rmtree(run.folder)
