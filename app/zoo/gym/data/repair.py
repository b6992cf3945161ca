"""Copies a file of examples without its bad rows and without repeated ones.

Rows are left out, never changed: a copied line has the bytes of the original. Rows that only the
template of a model refuses stay.
"""

import json
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

from zoo.gym.data.inspection import Repeat
from zoo.gym.data.reading.columns import DETECTED, Layout
from zoo.gym.data.reading.dataset import read_in_order
from zoo.gym.data.reading.files import check_file, data_suffix, is_parquet, read_lines
from zoo.gym.data.reading.jsonl import Row, has_row_per_line, holds_rows, read_rows
from zoo.gym.data.reading.table import SUFFIXES, row_starts
from zoo.gym.data.records import LEARNED, Kind, Problem, Record
from zoo.gym.errors import InputError
from zoo.gym.files.atomic import new_file

_LISTED = 100


@dataclass
class Repaired:
    """What a copy has, and what was left out of it.

    Attributes:
        kept: the number of rows in the copy.
        bad: the number of rows that cannot be used.
        duplicates: the number of usable rows that teach exactly what an earlier one does.
        problems: the first bad rows.
        repeats: the first duplicates.
    """

    kept: int = 0
    bad: int = 0
    duplicates: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    repeats: list[Repeat] = field(default_factory=list[Repeat])


def copy_name(path: Path) -> Path:
    """Returns the name of the copy: beside the file, with the suffix that its content needs."""
    suffix = path.suffix if _is_lines(path) else ".jsonl"
    return path.with_name(f"{path.stem}.fixed{suffix}")


def repair(
    path: Path,
    target: Path,
    readings: Sequence[Set[Kind]] = (LEARNED,),
    layout: Layout = DETECTED,
) -> Repaired:
    """Writes a copy of a file without bad and repeated rows; nothing if none is left out.

    Args:
        path: rows of json, jsonl, csv or tsv; of one JSON list the copy has a row per line.
        target: the copy, which must not exist yet.
        readings: the kinds of rows that each method reads; a row that none can read is bad.

    Raises:
        NotAvailableError: the file is missing.
        InputError: it is of another format, or has no usable row; or the target exists.
        StorageError: the target cannot be written.
    """
    result = Repaired()
    keeps = bytearray(_kept(path, readings, layout, result))
    if not result.kept:
        raise InputError(
            f"{path}: expected a row to keep, got {result.bad:,} rows that cannot be used",
            hint=str(result.problems[0]) if result.problems else None,
            code="data.no_usable_row",
        )
    if not result.bad and not result.duplicates:
        return result
    with new_file(target, replace=False) as unfinished, unfinished.open("wb") as copy:
        parts = _line_parts(path, keeps) if _is_lines(path) else _values(path, keeps)
        copy.writelines(parts)
    return result


def _kept(
    path: Path, readings: Sequence[Set[Kind]], layout: Layout, result: Repaired
) -> Iterator[bool]:
    """Yields for each row whether it is kept, and counts and lists the others."""
    first_of = dict[bytes, str]()
    files = (read_in_order(path, kinds, layout=layout) for kinds in readings)
    for row in zip(*files, strict=True):
        records = [record for read in row if not isinstance(read, Problem) for record in read]
        if not records:
            problems = [read for read in row if isinstance(read, Problem)]
            result.bad += 1
            result.problems += problems[:1][: _LISTED - len(result.problems)]
        elif (digest := _digest(records)) in first_of:
            result.duplicates += 1
            repeat = Repeat(records[0].source, first_of[digest])
            result.repeats += [repeat][: _LISTED - len(result.repeats)]
        else:
            first_of[digest] = records[0].source
            result.kept += 1
            yield True
            continue
        yield False


def _digest(records: Iterable[Record]) -> bytes:
    """Returns a digest of all that is learned from a row: blanks, weights and ratings count."""
    return blake2b(repr([_unplaced(record) for record in records]).encode()).digest()[:16]


def _unplaced(record: Record) -> Record:
    """Returns a record without its place in the file."""
    return replace(record, source="", sides=tuple(map(_unplaced, record.sides)))


def _line_parts(path: Path, keeps: bytearray) -> Iterator[bytes]:
    """Yields the lines of the rows to keep, and of what is before the first row."""
    starts = _row_starts(path)
    lines = read_lines(path)
    number, line = next(lines, (0, b""))
    for keep, (start, end) in zip([True, *keeps], pairwise([1, *starts, None]), strict=True):
        assert start is not None
        while number and (end is None or number < end):
            if keep and number >= start:
                yield line if line.endswith(b"\n") else line + b"\n"
            number, line = next(lines, (0, b""))


def _row_starts(path: Path) -> list[int]:
    """Returns the line that each row starts on; a cell of a table may have several lines."""
    if data_suffix(path) in SUFFIXES:
        return list(row_starts(path))
    return [number for number, raw in read_lines(path) if raw.strip()]


def _values(path: Path, keeps: bytearray) -> Iterator[bytes]:
    """Yields the values of a JSON list that are kept, one per line."""
    for keep, row in zip(keeps, read_rows(path), strict=True):
        if keep and isinstance(row, Row):
            yield f"{json.dumps(row.value, ensure_ascii=False)}\n".encode()


def _is_lines(path: Path) -> bool:
    """Returns whether rows are whole lines, and refuses what has no rows to leave out.

    Raises:
        InputError: the file is of another format.
    """
    head, suffix = check_file(path), data_suffix(path)
    is_json = suffix in {".json", ".jsonl", ".ndjson"} or holds_rows(path)
    packed = is_parquet(path, head) or path.suffix.lower() != suffix  # such as .jsonl.gz
    if packed or not (is_json or suffix in SUFFIXES):
        raise InputError(
            f"{path}: expected rows of json, jsonl, csv or tsv, got a file of another format",
            code="data.not_rows",
        )
    return suffix in SUFFIXES or has_row_per_line(path)
