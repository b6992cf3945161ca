"""The event log of a run: one JSON object per line, the contract between a run and its readers.

A line is `{"v": 1, "seq": n, "t": unix seconds, "kind": ..., ...}`. The kinds and their fields are
in docs/reference/runs.md. One process at a time writes; any number read, by byte offset.
"""

import errno
import json
import os
import time
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast

from zoo.gym.files import open_regular, private
from zoo.gym.paths import storage_error
from zoo.gym.terminal import plain_json

VERSION = 1

Kind: TypeAlias = Literal["state", "plan", "step", "eval", "checkpoint", "warn", "error", "end"]

Event: TypeAlias = dict[str, Any]
"""One line: `v`, `seq`, `t` and `kind`, then the fields of that kind."""

_DECODER = json.JSONDecoder()


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
            with open(self.path, "a+b", buffering=0, opener=private) as file:
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


class EventReader:
    """Reads a log on from where it was; each call of `read` returns what is new.

    Args:
        path: the log; one that is absent has no events.
        offset: bytes to pass over: 0, or the `offset` of an earlier reader.

    Attributes:
        offset: bytes read, behind a whole line.
        restarted: whether the last `read` found another log in this place, one that is shorter or
            has no line end at the offset, and began at its start.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.restarted = False

    def read(self) -> list[Event]:
        """Returns the whole lines behind the offset; a line that is still being written stays.

        Raises:
            OSError: the log cannot be read, or is no regular file.
        """
        self.restarted = False
        try:
            with open_regular(self.path) as file:
                content = self._new_bytes(file)
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self.offset += len(whole)
        return _events(whole)

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
    """Reads the whole lines behind a byte offset; a line that is still being written stays.

    Args:
        path: the log; one that is absent has no events.
        offset: 0, or what the last call returned.

    Returns:
        The events, and the offset for the next call.

    Raises:
        OSError: the log cannot be read, or is no regular file.
    """
    reader = EventReader(path, offset)
    return reader.read(), reader.offset


def log_end(path: Path) -> int:
    """Returns the offset behind the last event, from where `tail_events` reads only new ones."""
    try:
        with open_regular(path) as file:
            return file.read().rfind(b"\n") + 1
    except FileNotFoundError:
        return 0


def _events(content: bytes) -> list[Event]:
    """Returns the events of whole lines; what a broken disk left must not stop a reader."""
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
    """Returns what a line holds, or None where it holds no JSON."""
    try:
        return json.loads(line) if line else None
    except (ValueError, RecursionError):
        return None


def _encode(event: Mapping[str, object]) -> bytes:
    return plain_json(event).encode("utf-8", "backslashreplace") + b"\n"
