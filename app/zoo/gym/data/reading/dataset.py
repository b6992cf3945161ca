"""Reads data files into records; each row may have any known format."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import cast

from zoo.gym.data.mixing import Mix, mixed
from zoo.gym.data.reading import preference, prompts, whatsapp
from zoo.gym.data.reading.columns import DETECTED, Layout, require_columns
from zoo.gym.data.reading.dataset_info import Entry, described, entry_of, far_entry
from zoo.gym.data.reading.files import check_file, is_parquet
from zoo.gym.data.reading.formats import READS, has_format, parse_row
from zoo.gym.data.reading.jsonl import Row, holds_rows, read_rows
from zoo.gym.data.reading.keys import (
    MARGIN,
    NEEDS_PREFERENCE,
    ratings_of,
    unlisted_keys,
    unread_keys,
    unread_note,
)
from zoo.gym.data.reading.names import under_our_names
from zoo.gym.data.reading.parquet import read_parquet
from zoo.gym.data.reading.preference import is_preference, parse_pair, parse_rated, rated_of
from zoo.gym.data.reading.streams import data_suffix
from zoo.gym.data.reading.table import SUFFIXES, read_table
from zoo.gym.data.reading.text import read_paragraphs
from zoo.gym.data.reading.turns.exports import Export, chat_of, export_of
from zoo.gym.data.record_file import RecordStore
from zoo.gym.data.records import LEARNED, Dataset, Kind, Problem, Record
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.terminal import visible

CONCAT = Mix()
"""One file after the other."""

_JSON = frozenset({".json", ".jsonl", ".ndjson"})
_PLAIN_TEXT = "plain text"
_LABELLED = f"it is rated as good, and other rows as bad: {NEEDS_PREFERENCE}"


@dataclass(frozen=True, slots=True)
class _Row:
    """A parsed row: its records or its problem, and facts about it that concern the whole file."""

    source: str
    format: str = ""
    records: tuple[Record, ...] = ()
    unread: frozenset[str] = frozenset()
    label: bool | None = None
    problem: Problem | None = None
    keys: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])


EARLY_BYTES = 32_000_000
"""Data up to this size is read before a run exists; the run reads it again."""

IN_MEMORY_ROWS = 10_000
"""More rows, or rows of files larger than `EARLY_BYTES`, are kept in a file."""


def read_dataset(
    paths: Sequence[Path],
    max_samples: int | None = None,
    kinds: Set[Kind] = LEARNED,
    mix: Mix = CONCAT,
    layout: Layout = DETECTED,
    held_out: int = 0,
) -> Dataset:
    """Reads files of json, jsonl, csv, tsv, parquet or plain text; each row's format is detected.

    A row that cannot be used becomes a problem; the others are kept. The rows of a plain text
    file are its paragraphs.

    Args:
        paths: the files, in the order in which they are learned.
        max_samples: use only the first so many usable rows of each file; None for all.
        kinds: the kinds of rows that are used; another row is a problem.
        mix: how the files are mixed.
        layout: what the settings say of the files.
        held_out: how many files at the end are held out, and not mixed.

    Raises:
        NotAvailableError: a file is missing.
        InputError: a file is empty, not text, a malformed list, has no usable row, or has not the
            columns that the settings name; the files cannot be mixed.
    """
    for path in paths:
        check_file(path)
    small = sum(path.stat().st_size for path in paths) <= EARLY_BYTES
    store = RecordStore(IN_MEMORY_ROWS if small else 0)
    problems: list[Problem] = []
    formats: dict[str, str] = {}
    learned = len(paths) - held_out
    notes, ends = list(_repeated(paths[:learned])), [0]
    for path in paths:
        found = _collect(path, kinds, store, max_samples, layout)
        if layout.columns and (found.keys or found.rows):
            require_columns(str(path), layout.keys, found.keys)
        if not found.rows:
            raise _nothing_usable(path, found.problems)
        name = visible(str(path))
        if found.most is not None and found.rows > found.most:
            key = "max_samples" if found.most == max_samples else "num_samples"
            notes.append(f"{name}: the first {found.most} of {found.rows} rows are used ({key})")
        ends.append(len(store))
        problems += found.problems
        formats[str(path)] = " + ".join(found.formats)
        if found.unread:
            notes.append(unread_note(name, found.unread))
        if (entry := far_entry(path)) is not None:
            notes.append(f"{name}: read as {entry.where} says")
        if dropped := [counted(count, noun) for noun, count in found.dropped.items() if count]:
            notes.append(f"{name}: left out of chats: {', '.join(dropped)}")
    if layout.me is not None and whatsapp.NAME not in formats.values():
        raise InputError(
            "me: has no effect: expected an export of WhatsApp, which names its speakers",
            hint="remove me; or the export has dates in a form that is not read yet",
        )
    rows = [stop - start for start, stop in pairwise(ends)]
    records, taken = mixed(store.records(), rows, mix, held_out)
    if mix.strategy != "concat":
        notes += _shares(paths[:learned], rows[:learned], taken[:learned])
    kept = sum(rows[learned:])
    return Dataset(records, tuple(problems), formats, tuple(dict.fromkeys(notes)), kept)


def _shares(paths: Sequence[Path], rows: Sequence[int], taken: Sequence[int]) -> Iterator[str]:
    """Yields what is taken of each file for a mix."""
    for path, count, used in zip(paths, rows, taken, strict=True):
        share = f"{used / sum(taken):.0%} of all rows"
        yield f"{visible(str(path))}: {used} of {count} rows are mixed in, {share}"


@dataclass
class _Found:
    """What a file contains.

    Attributes:
        rows: the number of usable rows, also those above `max_samples`.
        problems: the rows that cannot be used.
        formats: the formats of the rows, in order.
        unread: how many rows have each key that is not read.
        labels: the labels of rows with an answer.
        most: the number of rows to use, None for all.
        keys: the keys of the rows, where they have others than ours.
        dropped: how much of what was left out of chats.
    """

    rows: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    formats: dict[str, None] = field(default_factory=dict[str, None])
    unread: Counter[str] = field(default_factory=Counter[str])
    labels: set[bool] = field(default_factory=set[bool])
    most: int | None = None
    keys: dict[str, None] = field(default_factory=dict[str, None])
    dropped: Counter[str] = field(default_factory=Counter[str])


def _collect(
    path: Path, kinds: Set[Kind], store: RecordStore, max_samples: int | None, layout: Layout
) -> _Found:
    """Stores the usable rows of a file, and returns what else it contains.

    If it has rows with a bad answer, those with a good one are refused, too: both are for a
    preference method. The first bad one may come late: the file is then read again.
    """
    before = len(store)
    entry = described(path, layout)
    limits = (max_samples, entry.num_samples if entry else None)
    most = min((most for most in limits if most is not None), default=None)
    rows = partial(_read_file, path, kinds, entry, layout.me)
    found = _collect_once(rows(), most, store, refuse_labelled=False)
    if found.labels == {True, False}:
        store.truncate(before)
        found = _collect_once(rows(), most, store, refuse_labelled=True)
    return found


def _collect_once(
    rows: Iterator[_Row], most: int | None, store: RecordStore, *, refuse_labelled: bool
) -> _Found:
    found = _Found(most=most)
    for row in rows:
        found.keys.update(dict.fromkeys(row.keys))
        found.dropped.update(row.dropped)
        if found.most is not None and found.rows >= found.most:
            found.rows += len(row.records)  # not used: neither learned nor reported
            continue
        if row.label is not None:
            found.labels.add(row.label)
        if row.problem:
            found.problems.append(row.problem)
            continue
        if refuse_labelled and row.label:
            found.problems.append(Problem(row.source, _LABELLED))
            continue
        for record in row.records:
            if found.most is None or found.rows < found.most:
                store.append(record)
            found.rows += 1
        found.formats[row.format] = None
        found.unread.update(row.unread)
    return found


def _repeated(paths: Sequence[Path]) -> Iterator[str]:
    """Yields a note for each file that is given more than once, under any name."""
    same: dict[tuple[int, int], list[Path]] = {}
    for path in paths:
        found = path.stat()
        same.setdefault((found.st_dev, found.st_ino), []).append(path)
    for given in same.values():
        if len(given) > 1:
            names = " and ".join(dict.fromkeys(visible(str(path)) for path in given))
            yield f"{names}: the same file given {len(given)} times: its rows are learned each time"


def _nothing_usable(path: Path, problems: Sequence[Problem]) -> InputError:
    if not problems:
        return InputError(f"{path}: empty file: expected rows of data, got none")
    hint = f"{path} has no usable row: all {len(problems)} have problems"
    return InputError(str(problems[0]), hint=hint)


def _read_file(path: Path, kinds: Set[Kind], entry: Entry | None, me: str | None) -> Iterator[_Row]:
    head = check_file(path)
    rows: Iterator[Row | Problem]
    if is_parquet(path, head):
        rows = (Row(line, value) for line, value in read_parquet(path))
    elif data_suffix(path) in SUFFIXES:
        rows = read_table(path, entry.columns if entry else {})
    elif data_suffix(path) in _JSON or holds_rows(path):
        rows = read_rows(path)
    elif whatsapp.is_whatsapp(head):
        for chat, dropped in whatsapp.read_whatsapp(path, me):
            found = _parsed(chat, path, kinds, entry)
            yield replace(found, format=whatsapp.NAME, dropped=dropped)
        return
    else:
        for record in read_paragraphs(path):
            if record.kind in kinds:
                yield _Row(record.source, _PLAIN_TEXT, (record,))
            else:
                yield _Row(
                    record.source, problem=Problem(record.source, _other(_PLAIN_TEXT, kinds))
                )
        return
    for row in rows:
        if isinstance(row, Problem):
            yield _Row(row.where, problem=row)
        else:
            yield _parsed(row, path, kinds, entry)


def _parsed(row: Row, path: Path, kinds: Set[Kind], entry: Entry | None) -> _Row:
    """Returns a row under the keys that its `dataset_info.json` says, if there is one."""
    source = f"{path}:{row.line}"
    if export := export_of(row.value):
        return _exported(row.value, export, source, kinds)
    if entry is None:
        return _known_row(row.value, source, kinds)
    fields = cast("dict[str, object]", row.value) if isinstance(row.value, dict) else {}
    try:
        value, unlisted = entry.applied(row.value)
    except InputError as error:
        return _Row(source, problem=Problem(source, error.message), keys=(*fields,))
    found = _known_row(value, source, kinds)
    left = unlisted_keys({key: fields[key] for key in unlisted})
    return replace(found, unread=found.unread | left, keys=(*fields,))


def _exported(value: object, export: Export, source: str, kinds: Set[Kind]) -> _Row:
    try:
        chat, dropped = chat_of(cast("dict[str, object]", value), export)
    except InputError as error:
        return _Row(source, problem=Problem(source, error.message))
    return replace(_known_row(chat, source, kinds), format=export.name, dropped=dropped)


def _known_row(value: object, source: str, kinds: Set[Kind]) -> _Row:
    try:
        value = _under_our_names(value)
        if kinds & {"pair", "rated"} and is_preference(value):
            margins = "margin" in kinds
            compared = cast("dict[str, object]", value)
            pair = parse_pair(compared, source, margins=margins)
            unread = unread_keys(value, preference.reads(compared) | ({MARGIN} & kinds))
            answers = (pair,) if "pair" in kinds else rated_of(pair)
            return _Row(source, preference.NAME, answers, unread)
        if "prompt" in kinds and prompts.is_prompt(value):
            record = prompts.parse_prompt(cast("dict[str, object]", value), source)
            return _Row(source, prompts.NAME, (record,), prompts.beside(record))
        if "rated" in kinds and isinstance(value, dict):
            name, rated = parse_rated(cast("dict[str, object]", value), source)
            unread = unread_keys(value, READS[name], is_rated=True)
            return _Row(source, name, (rated,), unread)
        repeated = preference.REPEATED if preference.repeats_better(value) else frozenset[str]()
        name, records = parse_row(_without_pair(value) if repeated else value, source)
        if any(record.kind not in kinds for record in records):
            raise InputError(_other(name, kinds))
    except InputError as error:
        return _Row(source, problem=Problem(source, error.message), label=_label(value))
    label = None if name == "text" else _label(value)
    return _Row(source, name, tuple(records), unread_keys(value, READS[name] | repeated), label)


def _without_pair(value: object) -> object:
    pair = preference.REPEATED | {"rejected"}
    return {key: item for key, item in cast("dict[str, object]", value).items() if key not in pair}


_KEYS = frozenset.union(*READS.values(), preference.READS, prompts.ANSWERS)
"""Every key that some method reads."""


def _under_our_names(value: object) -> object:
    """Returns a row whose keys are ours, unless it is in a format as it is."""
    row = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if not row or is_preference(row) or has_format(row):
        return value
    return under_our_names(row, _KEYS)


_WANTED: dict[Kind, str] = {
    "pair": "two answers to compare, 'chosen' and 'rejected'",
    "rated": "answers rated good or bad, with 'label' or 'forget', true or false, or pairs",
    "prompt": "a prompt to answer, 'prompt', and what a reward needs, such as 'answer'",
}


def _other(found: str, kinds: Set[Kind]) -> str:
    """Returns the error for a row of a kind that the method does not learn from."""
    wanted = " or ".join(text for kind, text in _WANTED.items() if kind in kinds)
    return f"expected {wanted}, got a row of {found}"


def _label(value: object) -> bool | None:
    row = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    given = ratings_of(row)
    return all(given.values()) if given else None


def check_dataset(
    paths: Sequence[Path], kinds: Set[Kind] = LEARNED, layout: Layout = DETECTED
) -> None:
    """Refuses data that cannot be used, before anything is made for it.

    Data of up to `EARLY_BYTES` is read for that, of more only each file's start.

    Raises:
        NotAvailableError: a file is absent.
        InputError: see `read_dataset`.
    """
    for path in paths:
        check_file(path)
    if sum(path.stat().st_size for path in paths) <= EARLY_BYTES:
        read_dataset(paths, kinds=kinds, layout=layout)


def early_records(
    paths: Sequence[Path], kinds: Set[Kind] = LEARNED, layout: Layout = DETECTED
) -> Iterator[Record]:
    """Yields the rows that are read before a run exists: all, or each file's first of more data.

    Raises:
        NotAvailableError: a file is absent.
        InputError: see `read_dataset`.
    """
    if sum(path.stat().st_size for path in paths) <= EARLY_BYTES:
        yield from read_dataset(paths, kinds=kinds, layout=layout).records
        return
    for path in paths:
        rows = _read_file(path, kinds, described(path, layout), layout.me)
        yield from next((row.records for row in rows if row.records), ())


def fingerprint(paths: Sequence[Path]) -> str:
    """Returns 64 hex digits that identify the data: equal for the same bytes in the same order.

    For one file it is the file's SHA-256, as `sha256sum` prints it; for several it is the SHA-256
    of their digests (32 bytes each, in order). File names do not count. The columns and roles that
    a `dataset_info.json` gives a file count with it.

    Raises:
        NotAvailableError: a file is missing.
        InputError: a file cannot be data.
    """
    digests: list[bytes] = []
    for path in paths:
        check_file(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        entry = entry_of(path)
        if entry is not None and entry.content != Entry("").content:
            digest = hashlib.sha256(digest + entry.content.encode()).digest()
        digests.append(digest)
    whole = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
    return whole.hex()
