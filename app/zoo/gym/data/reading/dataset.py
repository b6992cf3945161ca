"""Reads data files into records; each row may have any known format."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import cast

from zoo.gym.data.mixing import Mix, mixed
from zoo.gym.data.reading import preference, prompts, whatsapp
from zoo.gym.data.reading.columns import DETECTED, Layout, require_columns, under_our_names
from zoo.gym.data.reading.dataset_info import Entry, Fields, description_of, entry_of, far_entry
from zoo.gym.data.reading.files import check_file, data_suffix, is_parquet
from zoo.gym.data.reading.formats import READS, formats_with_all, parse_row
from zoo.gym.data.reading.jsonl import Row, holds_rows, read_rows
from zoo.gym.data.reading.keys import (
    MARGIN,
    NEEDS_PREFERENCE,
    other_keys,
    ratings_of,
    unread_keys,
    unread_note,
)
from zoo.gym.data.reading.parquet import read_parquet
from zoo.gym.data.reading.preference import is_preference, parse_pair, parse_rated, rated_of
from zoo.gym.data.reading.table import SUFFIXES, read_table
from zoo.gym.data.reading.text import read_paragraphs
from zoo.gym.data.reading.turns.exports import chat_of, export_of
from zoo.gym.data.record_file import RecordStore
from zoo.gym.data.records import ANSWERABLE, LEARNED, Dataset, Kind, Problem, Record
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.terminal import visible

CONCAT = Mix()

_PLAIN_TEXT = "plain text"

EARLY_BYTES = 32_000_000
"""Data up to this size is read before a run exists; the run reads it again."""

IN_MEMORY_ROWS = 10_000
"""More rows, or rows of files larger than `EARLY_BYTES`, are kept in a file."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A parsed row: its records or its problem, and facts about it that concern the whole file."""

    source: str
    format: str = ""
    records: tuple[Record, ...] = ()
    unread: frozenset[str] = frozenset()
    label: bool | None = None
    problem: str = ""
    keys: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass
class _Contents:
    """What a file contains.

    Attributes:
        most: the number of rows to use, None for all.
        rows: the number of usable rows, also those above `most`.
        unread: how many rows have each key that is not read.
        keys: the keys of the rows, where they have others than ours.
        dropped: counts of what was left out of chats.
    """

    most: int | None
    rows: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    formats: dict[str, None] = field(default_factory=dict[str, None])
    unread: Counter[str] = field(default_factory=Counter[str])
    labels: set[bool] = field(default_factory=set[bool])
    keys: dict[str, None] = field(default_factory=dict[str, None])
    dropped: Counter[str] = field(default_factory=Counter[str])


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
        held_out: how many files at the end are held out, and not mixed.

    Raises:
        NotAvailableError: a file is missing.
        InputError: a file is empty, not text, a malformed list, has no usable row, or has not the
            columns that the settings name; the files cannot be mixed.
    """
    store = RecordStore(IN_MEMORY_ROWS if _is_small(paths) else 0)
    problems: list[Problem] = []
    formats: dict[str, str] = {}
    learned = len(paths) - held_out
    notes, ends = list(_repeated(paths[:learned])), [0]
    for path in paths:
        contents = _collect(path, kinds, store, max_samples, layout)
        ends.append(len(store))
        problems += contents.problems
        formats[str(path)] = " + ".join(contents.formats)
        notes += _notes(path, contents, max_samples)
    if layout.me is not None and whatsapp.NAME not in formats.values():
        raise InputError(
            "me: has no effect: expected an export of WhatsApp, which names its speakers",
            hint="remove me; or the export has dates in a form that is not read yet",
            code="data.no_speakers",
        )
    rows = [stop - start for start, stop in pairwise(ends)]
    records, taken = mixed(store.records(), rows, mix, held_out)
    if mix.strategy != "concat":
        for path, count, used in zip(paths[:learned], rows, taken, strict=False):
            share = f"{used / sum(taken[:learned]):.0%} of all rows"
            notes.append(f"{visible(str(path))}: {used} of {count} rows are mixed in, {share}")
    unique_notes = tuple(dict.fromkeys(notes))
    return Dataset(records, tuple(problems), formats, unique_notes, sum(rows[learned:]))


def read_in_order(
    path: Path,
    kinds: Set[Kind],
    unread: Counter[str] | None = None,
    layout: Layout = DETECTED,
    skip: int = 0,
) -> Iterator[tuple[Record, ...] | Problem]:
    """Yields the rows of a file as they are in it: the records of each, or what is wrong with it.

    Args:
        path: the file.
        kinds: the kinds of rows that are used; another row is a problem.
        unread: gets how many rows have each key that is not read.
        skip: how many rows to leave out at the start.

    Raises:
        NotAvailableError: the file is missing.
        InputError: it cannot be data, or is a malformed list.
    """
    for row in _read_file(path, kinds, description_of(path, layout), layout.me, skip):
        if unread is not None:
            unread.update(row.unread)
        yield Problem(row.source, row.problem) if row.problem else row.records


def _is_small(paths: Sequence[Path]) -> bool:
    """Checks files, and returns whether their data is read before a run exists."""
    for path in paths:
        check_file(path)
    return sum(path.stat().st_size for path in paths) <= EARLY_BYTES


def _notes(path: Path, contents: _Contents, max_samples: int | None) -> Iterator[str]:
    name = visible(str(path))
    if contents.most is not None and contents.rows > contents.most:
        key = "max_samples" if contents.most == max_samples else "num_samples"
        yield f"{name}: the first {contents.most} of {contents.rows} rows are used ({key})"
    if contents.unread:
        yield unread_note(name, contents.unread)
    if (entry := far_entry(path)) is not None:
        yield f"{name}: read as {entry.where} says"
    if dropped := [counted(count, noun) for noun, count in contents.dropped.items() if count]:
        yield f"{name}: left out of chats: {', '.join(dropped)}"


def _repeated(paths: Sequence[Path]) -> Iterator[str]:
    """Yields a note for each file that is given more than once, under any name."""
    same: dict[tuple[int, int], list[Path]] = {}
    for path in paths:
        same.setdefault((path.stat().st_dev, path.stat().st_ino), []).append(path)
    for copies in same.values():
        if len(copies) > 1:
            names = " and ".join(dict.fromkeys(visible(str(path)) for path in copies))
            yield (
                f"{names}: the same file given {len(copies)} times: its rows are learned each time"
            )


def _collect(
    path: Path, kinds: Set[Kind], store: RecordStore, max_samples: int | None, layout: Layout
) -> _Contents:
    """Stores the usable rows of a file, and returns what else it contains.

    If it has rows with a bad answer, those with a good one are refused, too: both are for a
    preference method. The first bad one may come late: the file is then read again.
    """
    rows_before = len(store)
    entry = description_of(path, layout)
    limits = (max_samples, entry.num_samples if entry else None)
    most = min((most for most in limits if most is not None), default=None)
    rows = partial(_read_file, path, kinds, entry, layout.me)
    contents = _collect_once(rows(), most, store, refuse_labelled=False)
    if contents.labels == {True, False}:
        store.truncate(rows_before)
        contents = _collect_once(rows(), most, store, refuse_labelled=True)
    if layout.columns and (contents.keys or contents.rows):
        require_columns(str(path), layout.keys, contents.keys)
    if problems := contents.problems if not contents.rows else []:
        raise InputError(
            str(problems[0]),
            hint=f"{path} has no usable row: all {len(problems)} have problems",
            code="data.no_usable_row",
        )
    if not contents.rows:
        raise InputError(
            f"{path}: empty file: expected rows of data, got none", code="data.empty_file"
        )
    return contents


def _collect_once(
    rows: Iterator[_Row], most: int | None, store: RecordStore, *, refuse_labelled: bool
) -> _Contents:
    contents = _Contents(most)
    for row in rows:
        contents.keys.update(dict.fromkeys(row.keys))
        contents.dropped.update(row.dropped)
        if most is not None and contents.rows >= most:
            contents.rows += len(row.records)  # not used: neither learned nor reported
            continue
        if row.label is not None:
            contents.labels.add(row.label)
        problem = row.problem
        if refuse_labelled and row.label and not problem:
            problem = f"it is rated as good, and other rows as bad: {NEEDS_PREFERENCE}"
        if problem:
            contents.problems.append(Problem(row.source, problem))
            continue
        for record in row.records:
            if most is None or contents.rows < most:
                store.append(record)
            contents.rows += 1
        contents.formats[row.format] = None
        contents.unread.update(row.unread)
    return contents


def _read_file(
    path: Path, kinds: Set[Kind], entry: Entry | None, me: str | None, skip: int = 0
) -> Iterator[_Row]:
    head = check_file(path)
    suffix = data_suffix(path)
    rows: Iterator[Row | Problem]
    if is_parquet(path, head):
        rows = islice((Row(line, value) for line, value in read_parquet(path)), skip, None)
    elif suffix in SUFFIXES:
        rows = islice(read_table(path, entry.columns if entry else {}), skip, None)
    elif suffix in {".json", ".jsonl", ".ndjson"} or holds_rows(path):
        rows = read_rows(path, skip)
    elif whatsapp.is_whatsapp(head):
        for chat, dropped in islice(whatsapp.read_whatsapp(path, me), skip, None):
            parsed = _parsed(chat, path, kinds, entry)
            yield replace(parsed, format=whatsapp.NAME, dropped=dropped)
        return
    else:
        problem = "" if "text" in kinds else _other_kind(_PLAIN_TEXT, kinds)
        for record in islice(read_paragraphs(path), skip, None):
            yield _Row(record.source, _PLAIN_TEXT, () if problem else (record,), problem=problem)
        return
    for row in rows:
        if isinstance(row, Problem):
            yield _Row(row.where, problem=row.reason)
        else:
            yield _parsed(row, path, kinds, entry)


def _parsed(row: Row, path: Path, kinds: Set[Kind], entry: Entry | None) -> _Row:
    """Returns a row under the keys that its `dataset_info.json` says, if there is one."""
    source, value = f"{path}:{row.line}", row.value
    fields = cast("Fields", value) if isinstance(value, dict) else {}
    export = export_of(value)
    try:
        if export:
            chat, dropped = chat_of(fields, export)
            row_of_chat = _detected(chat, source, kinds)
            return replace(row_of_chat, format=export.name, dropped=dropped)
        if entry is None:
            return _detected(value, source, kinds)
        ours, unlisted = entry.applied(fields)
    except InputError as error:
        return _Row(source, problem=error.message, keys=() if export else (*fields,))
    parsed = _detected(ours if fields else value, source, kinds)
    beside = other_keys({key: fields[key] for key in unlisted}, frozenset())
    return replace(parsed, unread=parsed.unread.union(beside), keys=(*fields,))


def _detected(value: object, source: str, kinds: Set[Kind]) -> _Row:
    """Returns a row in the format that its keys say."""
    try:
        value = _under_our_names(value)
        fields = cast("Fields", value) if isinstance(value, dict) else {}
        if kinds & {"pair", "rated"} and is_preference(value):
            pair = parse_pair(fields, source, margins="margin" in kinds)
            unread = unread_keys(value, preference.reads(fields) | ({MARGIN} & kinds))
            answers = (pair,) if "pair" in kinds else rated_of(pair)
            return _Row(source, preference.NAME, answers, unread)
        is_prompt = "prompt" in kinds and prompts.is_prompt(value)
        if is_prompt and not (kinds & LEARNED and _is_learned(value)):
            record = prompts.parse_prompt(fields, source)
            return _Row(source, prompts.NAME, (record,), prompts.beside(record))
        if "rated" in kinds and isinstance(value, dict):
            name, rated = parse_rated(fields, source)
            unread = unread_keys(value, READS[name], is_rated=True)
            return _Row(source, name, (rated,), unread)
        repeated = preference.REPEATED if preference.repeats_better(value) else frozenset[str]()
        if repeated:
            pair_keys = repeated | {"rejected"}
            fields = {key: part for key, part in fields.items() if key not in pair_keys}
        name, records = parse_row(fields if repeated else value, source)
        if any(record.kind not in kinds for record in records):
            raise InputError(_other_kind(name, kinds), code="data.other_kind")
    except InputError as error:
        return _Row(source, problem=error.message, label=_label(value))
    label = None if name == "text" else _label(value)
    return _Row(source, name, tuple(records), unread_keys(value, READS[name] | repeated), label)


def _is_learned(value: object) -> bool:
    """Returns whether a row is in a format that is learned, which may have more of a prompt."""
    try:
        _, records = parse_row(value, "")
    except InputError:
        return False
    return all(record.kind in ANSWERABLE for record in records)


_KEYS = frozenset.union(*READS.values(), preference.READS, prompts.ANSWERS)


def _under_our_names(value: object) -> object:
    """Returns a row with our keys, unless it is in a format as it is."""
    row = preference.openai_pair(cast("Fields", value)) if isinstance(value, dict) else {}
    if is_preference(row):
        return row
    if not row or formats_with_all(row):
        return value
    return under_our_names(row, _KEYS)


_EXPECTED: dict[Kind, str] = {
    "pair": "two answers to compare, 'chosen' and 'rejected'",
    "rated": "answers rated good or bad, with 'label' or 'forget', true or false, or pairs",
    "prompt": "a prompt to answer, 'prompt', and what a reward needs, such as 'answer'",
}


def _other_kind(name: str, kinds: Set[Kind]) -> str:
    """Returns the error for a row of a kind that the method does not learn from."""
    expected = " or ".join(text for kind, text in _EXPECTED.items() if kind in kinds)
    expected = "a prompt or a chat" if kinds == ANSWERABLE else expected
    return f"expected {expected}, got a row of {name}"


def _label(value: object) -> bool | None:
    ratings = ratings_of(cast("Fields", value)) if isinstance(value, dict) else {}
    return all(ratings.values()) if ratings else None


def check_dataset(
    paths: Sequence[Path], kinds: Set[Kind] = LEARNED, layout: Layout = DETECTED
) -> None:
    """Refuses data that cannot be used, before anything is made for it.

    Data of up to `EARLY_BYTES` is read for that, of more only each file's start.

    Raises:
        NotAvailableError: a file is absent.
        InputError: see `read_dataset`.
    """
    if _is_small(paths):
        read_dataset(paths, kinds=kinds, layout=layout)


def early_records(
    paths: Sequence[Path], kinds: Set[Kind] = LEARNED, layout: Layout = DETECTED
) -> Iterator[Record]:
    """Yields the rows that are read before a run exists: all, or each file's first of more data.

    Raises:
        NotAvailableError: a file is absent.
        InputError: see `read_dataset`.
    """
    if _is_small(paths):
        yield from read_dataset(paths, kinds=kinds, layout=layout).records
        return
    for path in paths:
        rows = _read_file(path, kinds, description_of(path, layout), layout.me)
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
        entry = entry_of(path) or Entry("")
        if entry.content != Entry("").content:
            digest = hashlib.sha256(digest + entry.content.encode()).digest()
        digests.append(digest)
    digest = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
    return digest.hex()
