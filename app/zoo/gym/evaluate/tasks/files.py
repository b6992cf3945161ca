"""Finds the files of a task in a folder, and reads their rows as they are."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from zoo.gym.data.reading.files import check_file, data_suffix, read_text
from zoo.gym.data.reading.jsonl import read_rows
from zoo.gym.data.reading.parquet import check_parquet, read_parquet
from zoo.gym.data.records import Problem
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.evaluate.tasks.spec import Fields, Spec

_EXAMPLES = "examples"
"""The key of the rows in the files of BBH."""

_SPLITS = ("test", "validation", "val")
"""The splits that are measured, the first that is there."""

_SHARD = re.compile(r"-\d{5}-of-\d{5}")

_MMLU = ("question", "A", "B", "C", "D", "answer")
"""The columns of MMLU's csv files, which have no header."""


def files_of(spec: Spec, folder: Path, part: str = "") -> list[Path]:
    """Returns the files of a task, sorted by name; of several splits those of the test split.

    Args:
        spec: the task.
        folder: the folder of data.
        part: of a task with several files, the part that is meant.

    Raises:
        NotAvailableError: there is none, with the form that is expected in one line.
        InputError: several may be meant.
    """
    matching = {path for pattern in spec.files for path in folder.glob(pattern) if path.is_file()}
    paths = sorted(path for path in matching if not part or part_of(spec, path) == part)
    name = f"{spec.name}_{part}" if part else spec.name
    if not paths:
        expected = f"{' or '.join(spec.files)} with {spec.form}"
        raise NotAvailableError(
            f"{folder}: {name}: expected {expected}, got no such file",
            code="evaluate.no_data",
        )
    paths = _of_one_split(paths)
    exact = [path for path in paths if _words(path) <= {*spec.name.split("_"), *_SPLITS}]
    if not part and exact:
        paths = exact
    _refuse_several(spec, folder, name, paths)
    return paths


def _refuse_several(spec: Spec, folder: Path, name: str, paths: list[Path]) -> None:
    """Refuses files that may have the same rows: other formats, or answers beside the rows.

    Raises:
        InputError: there are several.
    """
    by_part: dict[str, Path] = {}
    for path in paths:
        part = part_of(spec, path) if spec.has_parts else ""
        other = by_part.setdefault(part, path)
        if _without_shard(other) != _without_shard(path):
            names = f"{other.relative_to(folder)} and {path.relative_to(folder)}"
            raise InputError(
                f"{folder}: {name}: expected one file of its rows, got {names}",
                hint="--data DIR with the one that is meant",
                code="evaluate.several_files",
            )


def _without_shard(path: Path) -> Path:
    """Returns a path without its number in a data set of several files."""
    return path.with_name(_SHARD.sub("", path.name))


def _words(path: Path) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", _without_shard(path).stem.lower()))


def _of_one_split(paths: list[Path]) -> list[Path]:
    """Returns the files of the test split, if some are; else those of no training split."""
    words = [set(re.split(r"[^a-z]+", path.stem.lower())) for path in paths]
    for split in _SPLITS:
        if any(split in each for each in words):
            return [path for path, each in zip(paths, words, strict=True) if split in each]
    others = [path for path, each in zip(paths, words, strict=True) if not each & {"train", "dev"}]
    return others or paths


def part_of(spec: Spec, path: Path) -> str:
    """Returns what a file is a part of a task: `boolean_expressions` of bbh."""
    stem = path.name.partition(".")[0].removeprefix(f"{spec.name}_")
    for ending in ("_test", "_val"):
        stem = stem.removesuffix(ending)
    return stem


def rows_of(path: Path) -> Iterator[tuple[int, Fields]]:
    """Yields the rows of a file with their numbers, from 1.

    Raises:
        InputError: the file, or a row, is no object of JSON, csv or parquet.
    """
    check_file(path)
    for number, value in enumerate(_values(path), 1):
        if not isinstance(value, dict):
            raise InputError(
                f"{path}: row {number}: expected an object, got {value!r:.60}",
                code="evaluate.bad_row",
            )
        yield number, cast("Fields", value)


def _values(path: Path) -> Iterator[object]:
    if data_suffix(path) == ".parquet":
        check_parquet(path)
        yield from (value for _, value in read_parquet(path))
        return
    if data_suffix(path) == ".csv":
        yield from _table(path)
        return
    for row in read_rows(path):
        if isinstance(row, Problem):
            raise InputError(str(row), code="evaluate.bad_row")
        value = row.value
        examples = value.get(_EXAMPLES) if isinstance(value, dict) else None
        yield from examples if isinstance(examples, list) else [value]


def _table(path: Path) -> Iterator[object]:
    try:
        lines = list(csv.reader(read_text(path).splitlines(keepends=True)))
    except csv.Error as error:
        raise InputError(f"{path}: not a table: {error}", code="evaluate.bad_row") from None
    is_mmlu = bool(lines) and len(lines[0]) == len(_MMLU) and lines[0][-1] in "ABCD"
    names = _MMLU if is_mmlu else lines.pop(0) if lines else ()
    for number, cells in enumerate(lines, 1):
        if len(cells) != len(names):
            raise InputError(
                f"{path}: row {number}: expected {len(names)} cells, got {len(cells)}",
                code="evaluate.bad_row",
            )
        yield dict(zip(names, cells, strict=True))
