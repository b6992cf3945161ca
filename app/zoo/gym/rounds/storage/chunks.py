"""Files in chunks of 4 MiB, each stored under its BLAKE3.

A list of the chunks is stored as a chunk itself, so that a file of any size is named by two
digests: its own and that of its list. What is stored already is not sent again, and nothing that
was fetched is used before its digest was checked.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from zoo.gym.errors import InputError, NotAvailableError, StorageError
from zoo.gym.files import new_file, open_regular, read_errors, storage_errors
from zoo.gym.rounds.storage.base import NoFileError, Storage, is_address

CHUNK_BYTES = 4 << 20
_MOST_CHUNKS = 1 << 18  # a terabyte; the list has 16 MiB


@dataclass(frozen=True)
class StoredFile:
    """A file in chunks.

    Attributes:
        digest: BLAKE3 of the file.
        bytes: its size.
        chunks: BLAKE3 of the list of its chunks.
    """

    digest: str
    bytes: int
    chunks: str


def describe(path: Path) -> tuple[StoredFile, list[str]]:
    """Returns what a file would be stored as, and the digests of its chunks.

    Raises:
        InputError: it is empty or too large.
        StorageError: it cannot be read.
    """
    from zoo.core import digest, file_digest

    digests = [digest(chunk) for chunk in _chunks_of(path)]
    if not 0 < len(digests) <= _MOST_CHUNKS:
        raise InputError(
            f"{path}: expected 1 to {_MOST_CHUNKS} chunks, got {len(digests)}",
            code="rounds.chunk_count",
        )
    with read_errors(path):
        file_hash, size = file_digest(path, zero_at=0, zero_len=0), path.stat().st_size
    return StoredFile(file_hash, size, digest(_list_of(digests))), digests


def store(path: Path, storage: Storage) -> StoredFile:
    """Stores the chunks of a file that are not stored yet, then their list.

    Raises:
        InputError: see `describe`; or the file changed meanwhile.
        StorageError: it cannot be read, or a chunk not be stored; those before it are.
    """
    from zoo.core import digest

    stored, digests = describe(path)
    for expected, chunk in zip(digests, _chunks_of(path), strict=True):
        if digest(chunk) != expected:
            raise InputError(
                f"{path}: the file changed while it was stored", code="rounds.file_changed"
            )
        store_bytes(chunk, storage)
    store_bytes(_list_of(digests), storage)
    return stored


def store_all(files: Iterable[Path | None], contents: Iterable[bytes], storage: Storage) -> None:
    """Stores files, None for one that is not there, and then chunks.

    Raises:
        GymError: see `store`.
    """
    for path in filter(None, files):
        store(path, storage)
    for content in contents:
        store_bytes(content, storage)


def store_bytes(content: bytes, storage: Storage) -> None:
    """Stores a chunk unless it is stored; a damaged one is replaced.

    A server or a service checks the bytes that it has; those of a folder are read.

    Raises:
        StorageError: it cannot be stored.
    """
    from zoo.core import digest

    name = chunk_name(digest(content))
    size = storage.size(name)
    if size is None:
        storage.write(name, content)
    elif size != len(content) or not (is_address(storage.address) or storage.read(name) == content):
        storage.replace(name, content)


def fetch(stored: StoredFile, storage: Storage, path: Path) -> None:
    """Writes a stored file to a path, complete or not at all.

    Raises:
        NotAvailableError: a chunk is missing.
        InputError: a chunk, the list or the file differs from its digest.
        StorageError: the storage cannot be read, or the file not be written.
    """
    from zoo.core import file_digest

    digests = listed(stored, storage)
    with new_file(path) as beside, storage_errors(path):
        with beside.open("wb") as file:
            for number, expected in enumerate(digests):
                chunk = read_chunk(storage, expected)
                if len(chunk) != _length(number, stored.bytes):
                    raise InputError(
                        f"chunk {expected[:12]}: expected another length", code="rounds.bad_chunk"
                    )
                file.write(chunk)
        if file_digest(beside, zero_at=0, zero_len=0) != stored.digest:
            raise InputError(
                f"file {stored.digest[:12]}: expected its digest, got another",
                code="rounds.bad_chunk",
            )


def fetch_new(stored: StoredFile, storage: Storage, path: Path) -> None:
    """Fetches a file unless it is here, whole, and there.

    What this machine has must decide nothing: a damaged copy does not speak for the stored file,
    nor one that came with another entry for a file which that entry does not lead to.

    Raises:
        GymError: see `fetch`.
    """
    if not (path.is_file() and _is_stored(path, stored, storage)):
        fetch(stored, storage, path)


def _is_stored(path: Path, stored: StoredFile, storage: Storage) -> bool:
    """Returns whether a local file is the stored one and all of its chunks are stored."""
    try:
        described, digests = describe(path)
    except InputError:
        return False
    if described != stored or storage.size(chunk_name(stored.chunks)) != len(_list_of(digests)):
        return False
    sizes = (_length(number, stored.bytes) for number in range(len(digests)))
    return all(
        storage.size(chunk_name(chunk)) == size for chunk, size in zip(digests, sizes, strict=True)
    )


def listed(stored: StoredFile, storage: Storage) -> list[str]:
    """Returns the digests of the chunks of a stored file.

    Raises:
        NotAvailableError: the list is missing.
        InputError: it differs from its digest, or is no list for a file of this size.
    """
    content = read_chunk(storage, stored.chunks)
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    expected = -(-stored.bytes // CHUNK_BYTES)
    digests = cast("list[object]", parsed) if isinstance(parsed, list) else []
    texts = [str(digest) for digest in digests]
    if len(texts) != expected or _list_of(texts) != content:
        raise InputError(
            f"chunks {stored.chunks[:12]}: expected a list of {expected} chunks, got another",
            code="rounds.bad_chunk",
        )
    return texts


def read_chunk(storage: Storage, expected: str) -> bytes:
    """Returns a chunk.

    Raises:
        NotAvailableError: it is missing.
        InputError: it differs from its digest, or no file has its name.
        StorageError: nobody can say, as a server is away or takes the token no more, or a folder
            was moved or its disk removed: that must not be held against who stored it.
    """
    from zoo.core import digest

    try:
        content = storage.read(chunk_name(expected))
    except NoFileError:
        check_there(storage)
        raise InputError(
            f"chunk {expected[:12]}: expected its digest, got no file", code="rounds.bad_chunk"
        ) from None
    except (InputError, NotAvailableError) as error:
        raise StorageError(error.message, hint=error.hint, code=error.code) from None
    if content is None:
        check_there(storage)
        raise NotAvailableError(
            f"{storage.address}: expected chunk {expected[:12]}, got nothing",
            code="rounds.chunk_missing",
        )
    if digest(content) != expected:
        raise InputError(
            f"chunk {expected[:12]}: expected its digest, got other bytes", code="rounds.bad_chunk"
        )
    return content


def check_there(storage: Storage) -> None:
    """Refuses to call a file missing where the whole round is gone.

    Raises:
        StorageError: there is no manifest any more.
    """
    if storage.size("manifest.json") is None:
        raise StorageError(
            f"{storage.address}: expected the round that was there, got nothing",
            hint="is the disk or the network folder still connected?",
            code="rounds.round_gone",
        )


def chunk_name(digest: str) -> str:
    """Returns the name of a chunk in a storage."""
    return f"chunks/{digest[:2]}/{digest}"


def _chunks_of(path: Path) -> Iterator[bytes]:
    with read_errors(path), open_regular(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _list_of(digests: Sequence[str]) -> bytes:
    return json.dumps(list(digests), separators=(",", ":")).encode()


def _length(number: int, size: int) -> int:
    return min(CHUNK_BYTES, size - number * CHUNK_BYTES)
