"""The event log of a run: one JSON object per line, the interface between a run and its readers.

A line is `{"v": 1, "seq": n, "t": unix seconds, "kind": ..., ...}`. The kinds and their fields are
in docs/reference/runs.md. One process at a time writes; any number read, by byte offset.
"""

import errno
import json
import os
import time
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast

from zoo.gym.files import open_regular, private
from zoo.gym.paths import storage_error
from zoo.gym.terminal import plain_json

VERSION = 1

Kind: TypeAlias = Literal[
    "state", "plan", "step", "eval", "answers", "checkpoint", "retention", "warn", "error", "end"
]

Event: TypeAlias = dict[str, Any]
"""One line: `v`, `seq`, `t` and `kind`, then the fields of that kind."""

_DECODER = json.JSONDecoder()


class EventLog:
    """Appends events to a file. Not thread-safe.

    Args:
        path: `events.jsonl`; created by the first event.

    Attributes:
        path: the same.
        on_event: called with each event after it is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.on_event: Callable[[Event], object] | None = None
        self._next_seq = 0
        self._end_bytes = -1

    def emit(self, kind: Kind, /, **fields: object) -> Event:
        """Appends one event and returns it; readers see the complete line or none of it.

        Numbers that JSON cannot represent (NaN, infinities) become null. A partial line left by an
        earlier writer is removed first, and numbering continues after the last complete line.

        Raises:
            StorageError: the disk is full or not writable; the log still ends with a complete line.
            ValueError: a field has a reserved name.
        """
        taken = {"v", "seq", "t", "kind"} & fields.keys()
        if taken:
            raise ValueError(f"event fields {sorted(taken)} are reserved: expected other names")
        try:
            with open(self.path, "a+b", buffering=0, opener=private) as file:
                self._heal(file)
                head = {"v": VERSION, "seq": self._next_seq, "t": round(time.time(), 3)}
                event = head | {"kind": kind} | fields
                self._append(file, plain_json(event).encode("utf-8", "backslashreplace") + b"\n")
        except OSError as error:
            raise storage_error(error, self.path) from error
        if self.on_event is not None:
            self.on_event(event)
        return event

    def _heal(self, file: FileIO) -> None:
        """Removes a partial last line and finds the next number, once or after another's write."""
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


class EventReader:
    """Reads a log incrementally; each call of `read` returns the new events.

    Args:
        path: the log; a missing file has no events.
        offset: bytes to skip: 0, or the `offset` of an earlier reader.

    Attributes:
        offset: bytes read so far, at the end of a line.
        restarted: whether the last `read` found a different log (shorter than the offset, or
            without a line end there) and read it from its start.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.restarted = False

    def read(self) -> list[Event]:
        """Returns the complete lines after the offset; skips a line that is still being written.

        Raises:
            OSError: the log cannot be read, or is not a regular file.
        """
        self.restarted = False
        try:
            with open_regular(self.path) as file:
                content = self._new_bytes(file)
        except FileNotFoundError:
            return []
        complete = content[: content.rfind(b"\n") + 1]
        self.offset += len(complete)
        return _events(complete)

    def _new_bytes(self, file: IO[bytes]) -> bytes:
        size_bytes = file.seek(0, os.SEEK_END)
        if self.offset:
            file.seek(max(0, self.offset - 1))
            if size_bytes >= self.offset and file.read(1) == b"\n":
                return file.read()
            self.restarted, self.offset = True, 0
        file.seek(0)
        return file.read()


def tail_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """Reads the complete lines after a byte offset; skips a line that is still being written.

    Args:
        path: the log; a missing file has no events.
        offset: 0, or the offset that the last call returned.

    Returns:
        The events, and the offset for the next call.

    Raises:
        OSError: the log cannot be read, or is not a regular file.
    """
    reader = EventReader(path, offset)
    return reader.read(), reader.offset


def log_end(path: Path) -> int:
    """Returns the offset after the last event, from which `tail_events` reads only new ones."""
    try:
        with open_regular(path) as file:
            return file.read().rfind(b"\n") + 1
    except FileNotFoundError:
        return 0


def _events(content: bytes) -> list[Event]:
    """Returns the events of complete lines; skips lines damaged on disk."""
    try:
        lines: Sequence[str | bytes] = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        lines = content.split(b"\n")
    events: list[Event] = []
    keep, parse = events.append, _DECODER.raw_decode
    for line in lines:
        try:
            event, end = parse(line)  # type: ignore[arg-type]
            if end != len(line):
                event = _parse(line)
        except (ValueError, TypeError, RecursionError):
            event = _parse(line)
        if type(event) is dict and type(event.get("kind")) is str:
            keep(event)
    return events


def _last_seq(content: bytes) -> int:
    for line in reversed(content.split(b"\n")):
        event = _parse(line)
        if isinstance(event, dict):
            seq = cast("Event", event).get("seq")
            if isinstance(seq, int) and isinstance(cast("Event", event).get("kind"), str):
                return seq
    return -1


def _parse(line: str | bytes) -> object:
    """Returns the value of a line, or None if it is not JSON."""
    try:
        return json.loads(line) if line else None
    except (ValueError, RecursionError):
        return None
