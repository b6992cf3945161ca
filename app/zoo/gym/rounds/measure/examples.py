"""The files of examples that a round's manifest names by SHA-256, and their rows in tokens."""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_errors
from zoo.gym.rounds.protocol.records import FEWEST_ROWS, SUFFIX, Purpose, Shown, examples_of
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, fetch_new, store

if TYPE_CHECKING:
    from zoo.gym.data.units import Example

CUTOFF_TOKENS = 1024
"""Longer rows are cut, texts into windows; the model's context, if that is shorter."""

DATE = "2024-07-26"
"""What templates print as today's date, so that rows are the same on every day."""


def digest_of(file: Path) -> str:
    """Returns the SHA-256 of a file as 64 hexadecimal digits.

    Raises:
        NotAvailableError: it is missing.
        StorageError: it cannot be read.
    """
    if not file.is_file():
        raise NotAvailableError(
            f"{file}: expected a file of examples, got nothing", code="rounds.no_examples"
        )
    with read_errors(file):
        return sha256(file.read_bytes()).hexdigest()


def promised_digest(file: Path) -> str:
    """Returns the SHA-256 of a file that a manifest is to name, and a gate to show.

    Raises:
        NotAvailableError: it is missing.
        InputError: it is empty; or see `shown_suffix`.
        StorageError: it cannot be read.
    """
    digest = digest_of(file)
    if not file.stat().st_size:
        raise InputError(
            f"{file}: empty file: expected examples, got none", code="rounds.empty_examples"
        )
    shown_suffix(file)
    return digest


def shown_suffix(file: Path) -> str:
    """Returns the suffix by which everybody reads a file of examples once it is shown.

    That of a compression is left out: it is recognised by the first bytes.

    Raises:
        InputError: the record of a shown file cannot have this suffix.
    """
    from zoo.gym.data.reading.files import data_suffix

    suffix = data_suffix(file) or file.suffix.lower()
    if not re.fullmatch(SUFFIX, suffix):
        raise InputError(
            f"{file}: expected a name with a suffix of 1 to 10 letters, as .jsonl, "
            f"got {suffix or 'none'}",
            hint="rename the file: everybody reads it by its suffix once the gate shows it",
            code="rounds.file_suffix",
        )
    return suffix


def show(file: Path, purpose: Purpose, storage: Storage) -> Shown:
    """Stores a file of examples and returns the record that shows it.

    Raises:
        NotAvailableError: it is missing.
        InputError: see `shown_suffix`.
        StorageError: it cannot be read or stored.
    """
    digest, suffix = digest_of(file), shown_suffix(file)
    stored = store(file, storage)
    return Shown(purpose=purpose, sha256=digest, suffix=suffix, **vars(stored))


def check_file(file: Path, purpose: Purpose, state: State) -> None:
    """Refuses a file that is not the one of the manifest.

    Raises:
        NotAvailableError: it is missing.
        InputError: it is another one, or the manifest has none of this purpose.
    """
    expected, got = examples_of(state.manifest).get(purpose), digest_of(file)
    if expected != got:
        named = "none" if expected is None else f"the {purpose} file with SHA-256 {expected[:12]}"
        raise InputError(f"{file}: expected {named}, got {got[:12]}", code="rounds.other_examples")
    terms, size = state.manifest.evaluation, file.stat().st_size
    if purpose == "evaluation" and terms is not None and terms.bytes != size:
        raise InputError(
            f"{file}: expected {terms.bytes} bytes by the round's terms, got {size}",
            code="rounds.other_examples",
        )


def shown_file(purpose: Purpose, state: State, storage: Storage, folder: Path) -> Path:
    """Returns a shown file of examples, fetched to the folder of the round and checked.

    Raises:
        NotAvailableError: it was not shown yet, or its chunks are missing.
        InputError: it is not the one of the manifest.
    """
    record = state.measured.shown.get(purpose)
    if record is None:
        raise NotAvailableError(
            f"round {state.manifest.name}: expected its {purpose} examples, got none yet",
            hint=f"a key of role gate shows them: {state.manifest.command('measure')}",
            code="rounds.not_shown",
        )
    path = folder / f"{purpose}{record.suffix}"
    fetch_new(StoredFile(record.digest, record.bytes, record.chunks), storage, path)
    check_file(path, purpose, state)
    return path


def check_rows(file: Path, model: Path) -> None:
    """Refuses a file of examples on which nothing could be measured once it is shown.

    Raises:
        InputError: a `dataset_info.json` says how it is read, which nobody else has; or as
            `read_examples`.
    """
    from zoo.gym.data.reading.dataset_info import entry_of

    entry = entry_of(file)
    if entry is not None:
        raise InputError(
            f"{file}: expected rows that are read alone, got a file that {entry.where} describes",
            hint="the gate shows the file by itself: write its rows as prompt and completion, and "
            "keep it in another folder",
            code="rounds.described_rows",
        )
    read_examples(file, model)


def read_examples(file: Path, model: Path) -> "Sequence[Example]":
    """Returns the rows of a file in a model's tokens.

    Args:
        file: chats, prompts with completions or texts, in any format that training reads.

    Raises:
        InputError: it has fewer than `FEWEST_ROWS` usable rows.
    """
    from zoo.gym.data import EncodeOptions, encode_records, load_tokenizer, read_dataset
    from zoo.models.folder import model_positions, vocabulary_size

    positions = model_positions(model) or CUTOFF_TOKENS
    options = EncodeOptions(
        min(CUTOFF_TOKENS, positions), date=DATE, vocabulary=vocabulary_size(model)
    )
    records = read_dataset([file]).records
    examples = encode_records(records, load_tokenizer(model), options).examples
    rows = [row for row in examples if row.mask.any()]
    if len(rows) < FEWEST_ROWS:
        raise InputError(
            f"{file}: expected at least {FEWEST_ROWS} rows, got {len(rows)}", code="rounds.few_rows"
        )
    return rows
