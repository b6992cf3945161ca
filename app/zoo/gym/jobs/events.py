"""The event log of a run: one JSON object per line, the contract between a run and its readers.

A line is `{"v": 1, "seq": n, "t": unix seconds, "kind": ..., ...}`. The kinds and their fields are
in docs/reference/runs.md. One process at a time writes; any number read, by byte offset.
"""

import errno
import json
import math
import os
import time
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from zoo.gym.paths import storage_error

VERSION = 1

Kind: TypeAlias = Literal["state", "plan", "step", "eval", "checkpoint", "warn", "error", "end"]

Event: TypeAlias = dict[str, Any]
"""One line: `v`, `seq`, `t` and `kind`, then the fields of that kind."""


class EventLog:
    """Appends events to a file. Not for two threads at once.

    Args:
        path: `events.jsonl`; it is made by the first event.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next_seq = 0
        self._end_bytes = -1

    def emit(self, kind: Kind, /, **fields: object) -> Event:
        """Appends one event and returns it; readers see the whole line or nothing of it.

        Numbers that JSON lacks (NaN, infinities) become null. A line that an earlier writer left
        unfinished is cut off first, and the numbering goes on behind the last whole one.

        Raises:
            StorageError: the disk is full or refuses; the log ends with a whole line.
            ValueError: a field has the name of one that every event has.
        """
        taken = {"v", "seq", "t", "kind"} & fields.keys()
        if taken:
            raise ValueError(f"event fields {sorted(taken)} are the log's own")
        try:
            with self.path.open("a+b", buffering=0) as file:
                self._heal(file)
                head = {"v": VERSION, "seq": self._next_seq, "t": round(time.time(), 3)}
                event = head | {"kind": kind} | fields
                self._append(file, _encode(event))
        except OSError as error:
            raise storage_error(error, self.path) from error
        return event

    def _heal(self, file: FileIO) -> None:
        """Cuts off a torn last line and finds the next number, once or after another's write."""
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes == self._end_bytes:
            return
        file.seek(0)
        content = file.read()
        whole_bytes = content.rfind(b"\n") + 1
        if whole_bytes < size_bytes:
            file.truncate(whole_bytes)
        self._next_seq = _last_seq(content[:whole_bytes]) + 1
        self._end_bytes = whole_bytes

    def _append(self, file: FileIO, line: bytes) -> None:
        if file.write(line) != len(line):
            file.truncate(self._end_bytes)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._end_bytes += len(line)
        self._next_seq += 1


def tail_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """Reads the whole lines behind a byte offset; a line that is still being written stays.

    Args:
        path: the log; one that is absent has no events.
        offset: 0, or what the last call returned.

    Returns:
        The events, and the offset for the next call.
    """
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, os.SEEK_END)
            start = offset if offset <= size_bytes else 0  # a shorter file is another one
            file.seek(start)
            content = file.read()
    except FileNotFoundError:
        return [], offset
    whole_bytes = content.rfind(b"\n") + 1
    parsed = (_parse(line) for line in content[:whole_bytes].split(b"\n"))
    return [event for event in parsed if event is not None], start + whole_bytes


def log_end(path: Path) -> int:
    """Returns the offset behind the last event, from where `tail_events` reads only new ones."""
    return tail_events(path)[1]


def _last_seq(content: bytes) -> int:
    for line in reversed(content.split(b"\n")):
        event = _parse(line)
        if event is not None and isinstance(event.get("seq"), int):
            return cast("int", event["seq"])
    return -1


def _parse(line: bytes) -> Event | None:
    """Returns the event of a line, or None: what a broken disk left must not stop a reader."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    event = cast("Event", found)
    return event if isinstance(event.get("kind"), str) else None


def _encode(event: Mapping[str, object]) -> bytes:
    try:
        text = json.dumps(event, allow_nan=False, ensure_ascii=False)
    except ValueError:
        text = json.dumps(_finite(event), allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {key: _finite(entry) for key, entry in entries.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in cast("list[object]", value)]
    return value
