import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codes import raises
from zoo.gym.errors import StorageError
from zoo.gym.jobs.events import Event, EventLog, log_end, tail_events

ANY_TEXT = st.text('a"\\\n\r\u2028\ud800é😀', max_size=8)  # line ends, half a pair, two lengths
FIELDS = st.dictionaries(st.sampled_from(["loss", "message"]), ANY_TEXT | st.integers(), max_size=2)


def numbers(path: Path) -> list[int]:
    return [event["seq"] for event in tail_events(path)[0]]


def test_a_line_holds_the_version_number_time_and_kind(tmp_path: Path) -> None:
    EventLog(tmp_path / "e").emit("step", step=3, loss=0.5)
    line: dict[str, Any] = json.loads((tmp_path / "e").read_text(encoding="utf-8"))
    assert isinstance(line.pop("t"), float)
    assert line == {"v": 1, "seq": 0, "kind": "step", "step": 3, "loss": 0.5}


def test_numbers_continue_in_a_log_opened_again(tmp_path: Path) -> None:
    for log in (EventLog(tmp_path / "e"), EventLog(tmp_path / "e")):
        log.emit("warn", message="a")
        log.emit("warn", message="b")
    assert numbers(tmp_path / "e") == [0, 1, 2, 3]


def test_numbers_continue_after_another_writer(tmp_path: Path) -> None:
    first, second = EventLog(tmp_path / "e"), EventLog(tmp_path / "e")
    for log in (first, second, first):
        log.emit("warn", message="a")
    assert numbers(tmp_path / "e") == [0, 1, 2]


@pytest.mark.parametrize("torn", [b'{"v": 1, "seq": 1, "ki', b'{"kind": "x", "seq": 9}', b"\0\0"])
def test_a_torn_last_line_is_cut_off_before_the_next_event(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "e"
    EventLog(path).emit("state", state="running")
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    EventLog(path).emit("state", state="paused")
    assert path.read_bytes().startswith(whole + b'{"v": 1, "seq": 1, ')
    assert numbers(path) == [0, 1]


def test_a_broken_whole_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "e"
    EventLog(path).emit("warn", message="a")
    broken = b'\0\0\n[1]\n{"no": "kind"}\n\xff\n' + b"[" * 100_000 + b"\n"
    path.write_bytes(path.read_bytes() + broken)
    EventLog(path).emit("warn", message="b")
    assert numbers(path) == [0, 1]


def test_what_json_has_no_number_for_becomes_null(tmp_path: Path) -> None:
    path = tmp_path / "e"
    EventLog(path).emit("step", loss=float("nan"), metrics={"a": [float("inf"), 1.5]})
    assert b"NaN" not in path.read_bytes()
    (event,), _ = tail_events(path)
    assert (event["loss"], event["metrics"]) == (None, {"a": [None, 1.5]})


@pytest.mark.parametrize("name", ["v", "seq", "t", "kind"])
def test_a_field_named_like_the_logs_own_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        EventLog(tmp_path / "e").emit("warn", **{name: 1})


def test_an_absent_log_has_no_events(tmp_path: Path) -> None:
    assert tail_events(tmp_path / "e", 0) == ([], 0)


def test_a_log_that_became_shorter_is_read_from_its_start(tmp_path: Path) -> None:
    EventLog(tmp_path / "e").emit("warn", message="new")
    assert len(tail_events(tmp_path / "e", 10_000)[0]) == 1


def test_reading_from_the_end_gives_only_later_events(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "e")
    log.emit("warn", message="before")
    end = log_end(tmp_path / "e")
    log.emit("warn", message="after")
    assert [event["message"] for event in tail_events(tmp_path / "e", end)[0]] == ["after"]


def test_a_disk_that_takes_half_a_line_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    log = EventLog(tmp_path / "e")
    log.emit("warn", message="a")
    size_bytes = (tmp_path / "e").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + 10, before[1]))
    try:
        with pytest.raises(StorageError, match=os.strerror(errno.ENOSPC).lower()):
            log.emit("warn", message="b" * 50)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "e").stat().st_size == size_bytes
    log.emit("warn", message="c")
    assert numbers(tmp_path / "e") == [0, 1]


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with raises("paths.storage", "cannot write"):
        EventLog(tmp_path / "absent" / "e").emit("warn", message="a")


@pytest.mark.slow
@given(st.lists(FIELDS, max_size=6), st.lists(st.integers(0, 1000), max_size=8))
def test_any_chopping_of_the_bytes_gives_the_same_events(
    rows: list[dict[str, Any]], thousandths: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, growing = Path(folder, "whole"), Path(folder, "growing")
        log = EventLog(whole)
        sent = [log.emit("warn", **row) for row in rows]
        content = whole.read_bytes() if rows else b""
        seen: list[Event] = []
        offset = 0
        for thousandth in [*sorted(thousandths), 1000]:
            growing.write_bytes(content[: len(content) * thousandth // 1000])
            events, offset = tail_events(growing, offset)
            seen += events
    assert seen == sent
