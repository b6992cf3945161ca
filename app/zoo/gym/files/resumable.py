"""A file of JSON lines that takes long to write: after a kill the same work goes on behind its end.

Lines are appended to `NAME.part`, and the file gets its name when all are there; a last line that a
crash has cut is removed. `NAME.settings.json` has what the lines depend on: others are refused, not
mixed.
"""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from zoo.gym.errors import GymError, InputError
from zoo.gym.files.atomic import (
    check_new_file,
    move_over,
    remove_file,
    storage_errors,
    sync_file,
    sync_folder,
    write_beside,
)
from zoo.gym.files.lock import locked
from zoo.gym.files.reading import read_json_object
from zoo.gym.paths import make_folder

Line = dict[str, object]

PART, SETTINGS = "part", "settings.json"
"""The endings of the files beside it."""


@dataclass
class Resumable:
    """A file that is being written, or that is complete.

    Attributes:
        path: its name when it is complete.
        notes: what its settings file has besides the settings, as it was at the start.
        file: what lines are appended to; None if it is complete.
    """

    path: Path
    notes: Line
    file: IO[bytes] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all lines are there."""
        return self.file is None

    def lines(self) -> Iterator[Line]:
        """Yields the lines that are there."""
        for line, _ in _whole_lines(self.path if self.is_complete else _name(self.path, PART)):
            yield line

    def append(self, line: str) -> None:
        """Writes a line of JSON.

        Raises:
            StorageError: it cannot be written.
        """
        assert self.file is not None, "a complete file has no more lines"
        with storage_errors(self.path):
            self.file.write(f"{line}\n".encode())
            self.file.flush()  # a kill loses at most the line that is being written


@contextmanager
def resumable(
    path: Path, settings: Mapping[str, object], notes: Mapping[str, object]
) -> Generator[Resumable]:
    """Yields a file to append lines to; when the block succeeds, it is complete.

    Args:
        path: the file.
        settings: what the lines depend on, as JSON has it.
        notes: other facts of the start.

    Raises:
        InputError: there is another file, or lines that were made with other settings.
        StorageError: it cannot be written.
        GymError: another process writes it.
    """
    check_new_file(path)
    with storage_errors(path):
        make_folder(path.parent)
    lock = path.with_name(f".{path.name}.lock")
    with locked(lock) as held:
        if not held:
            raise GymError(
                f"{path}: expected no other process that writes it, got one",
                hint="wait for its end, or choose another name with --out",
                code="files.being_written",
            )
        yield from _written(path, settings, notes)
    with suppress(OSError):  # Windows refuses while another process has it open
        remove_file(lock)


def _written(
    path: Path, settings: Mapping[str, object], notes: Mapping[str, object]
) -> Generator[Resumable]:
    part, beside = _name(path, PART), _name(path, SETTINGS)
    stored = read_json_object(beside)
    if path.exists() or (part.exists() and part.stat().st_size):
        _require_same(path, path if path.exists() else part, settings, stored)
    else:
        stored = {"settings": dict(settings), "notes": dict(notes)}
        write_beside(beside, json.dumps(stored, ensure_ascii=False, indent=1) + "\n")
    kept = cast("Line", (stored or {}).get("notes"))
    if path.exists():
        yield Resumable(path, kept)
        return
    with storage_errors(path):
        file = part.open("ab")
    try:
        with file:
            file.truncate(max((end for _, end in _whole_lines(part)), default=0))
            yield Resumable(path, kept, file)
    except BaseException:
        if not part.stat().st_size:  # nothing to go on with
            remove_file(part)
            remove_file(beside)
        raise
    with storage_errors(path):
        sync_file(part)
        move_over(part, path)
        sync_folder(path.parent)


def _name(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _require_same(
    path: Path, begun: Path, settings: Mapping[str, object], stored: Line | None
) -> None:
    """Refuses to go on with lines that were made otherwise.

    Raises:
        InputError: they were.
    """
    theirs = (stored or {}).get("settings")
    if not isinstance(theirs, dict):
        raise InputError(
            f"output {str(path)!r}: expected a new file, or one with its settings beside it in "
            f"{_name(path, SETTINGS).name}, got {begun.name} without",
            hint="choose another name with --out, or remove the file",
            code="files.no_settings",
        )
    lines_of = cast("Line", theirs)
    for key in {**lines_of, **settings}:
        if lines_of.get(key) != settings.get(key):
            raise InputError(
                f"{begun}: its lines were made with another {key}: expected "
                f"{_shown(lines_of.get(key))}, got {_shown(settings.get(key))}",
                hint=f"as before, the same command goes on; otherwise choose another name with "
                f"--out, or remove {begun.name}",
                code="files.other_settings",
            )


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:20]}..."


def _whole_lines(path: Path) -> Iterator[tuple[Line, int]]:
    """Yields the lines up to the first that a crash has cut, each with the offset of its end."""
    end = 0
    with path.open("rb") as file:
        for raw in file:
            try:
                line: object = json.loads(raw) if raw.endswith(b"\n") else None
            except ValueError:
                return
            if not isinstance(line, dict):
                return
            end += len(raw)
            yield cast("Line", line), end
