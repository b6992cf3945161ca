"""Reads data files into records, whatever known format each row has."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from zoo.gym.data.files import check_file
from zoo.gym.data.formats import parse_row
from zoo.gym.data.jsonl import decode, read_rows
from zoo.gym.data.records import Dataset, Problem, Record
from zoo.gym.data.text import read_paragraphs
from zoo.gym.errors import InputError

_JSON = frozenset({".json", ".jsonl", ".ndjson"})
_PROSE = frozenset({".txt", ".text", ".md", ".markdown", ".rst"})
_PLAIN_TEXT = "plain text"


def read_dataset(paths: Sequence[Path]) -> Dataset:
    """Reads files of json, jsonl or plain text; each row's format is found by itself.

    A row that cannot be used becomes a problem and the rest is kept. The rows of a plain text
    file are its paragraphs.

    Args:
        paths: the files, in the order in which they are learned.

    Raises:
        NotAvailableError: a file is absent.
        InputError: a file is empty, not text, a list with a fault in it, or has no usable row.
    """
    records: list[Record] = []
    problems: list[Problem] = []
    formats: dict[str, str] = {}
    for path in paths:
        rows = list(_read_file(path))
        found = [record for _, row in rows if not isinstance(row, Problem) for record in row]
        wrong = [row for _, row in rows if isinstance(row, Problem)]
        if not found:
            raise _nothing_usable(path, wrong)
        records += found
        problems += wrong
        formats[str(path)] = " + ".join(dict.fromkeys(name for name, _ in rows if name))
    return Dataset(tuple(records), tuple(problems), formats)


def _nothing_usable(path: Path, problems: Sequence[Problem]) -> InputError:
    if not problems:
        return InputError(f"{path}: empty file: expected rows of data, got none")
    hint = f"{path} has no usable row, {len(problems)} cannot be used"
    return InputError(str(problems[0]), hint=hint)


def _read_file(path: Path) -> Iterator[tuple[str, list[Record] | Problem]]:
    head = check_file(path)
    if not _holds_json(path, head):
        for record in read_paragraphs(path):
            yield _PLAIN_TEXT, [record]
        return
    for row in read_rows(path):
        if isinstance(row, Problem):
            yield "", row
            continue
        source = f"{path}:{row.line}"
        try:
            yield parse_row(row.value, source)
        except InputError as error:
            yield "", Problem(source, error.message)


def _holds_json(path: Path, head: bytes) -> bool:
    """Says whether a file is JSON: by its name, or for an unknown name by its first line."""
    suffix = path.suffix.lower()
    if suffix in _JSON or suffix in _PROSE:
        return suffix in _JSON
    first = head.lstrip().split(b"\n", 1)[0]
    try:
        return isinstance(decode(first), dict)
    except InputError:
        return False


def fingerprint(paths: Sequence[Path]) -> str:
    """Returns 64 hex digits that name the data: the same bytes in the same order, the same digits.

    For one file it is the file's SHA-256, as `sha256sum` prints it; for several it is the SHA-256
    of their digests (32 bytes each, in order). Names do not count.

    Raises:
        NotAvailableError: a file is absent.
        InputError: a file cannot be data.
    """
    digests: list[bytes] = []
    for path in paths:
        check_file(path)
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    whole = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
    return whole.hex()
