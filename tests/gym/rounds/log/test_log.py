"""Logs in a folder: what is appended is read, and what is changed is noticed."""

import os
from hashlib import sha512
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.errors import InputError, StorageError
from zoo.gym.rounds.log.reader import (
    Head,
    NoteKey,
    bundle,
    leaf_hash,
    open_log,
    proves_consistency,
    read_head,
    root,
    signed_note,
)
from zoo.gym.rounds.log.writer import LogWriter
from zoo.gym.rounds.storage.base import FolderStorage

KEY = NoteKey("round/log", b"a public key")
EMPTY = Head("round", 0, root(0, lambda *_: b""))


def sign(message: bytes) -> bytes:
    """Stands for Ed25519: 64 bytes that depend on the message."""
    return sha512(b"secret" + message).digest()


def valid(message: bytes, signature: bytes) -> bool:
    return signature == sign(message)


def writer(storage: FolderStorage, head: Head = EMPTY) -> LogWriter:
    return LogWriter(storage, head, KEY, sign)


def head_of(storage: FolderStorage) -> Head:
    return read_head(storage.read("log/checkpoint"), "round", KEY, {KEY: valid})[0]


def numbered(start: int, stop: int) -> list[bytes]:
    return [f"entry {number}".encode() for number in range(start, stop)]


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path / "round")


@pytest.mark.parametrize("steps", [[1], [3, 2], [255, 1, 1], [256], [300, 300, 5]])
def test_entries_are_read_in_the_order_of_appending(
    storage: FolderStorage,
    steps: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    size = 0
    for step in steps:
        log = writer(storage, head_of(storage) if size else EMPTY)  # each step opens it again
        log.append(numbered(size, size + step))
        size += step

    reader = open_log(storage.read, head_of(storage))
    assert reader.entries() == numbered(0, size)
    assert reader.root() == root(size, reader.node)


def test_a_later_head_is_consistent_with_an_earlier_one(storage: FolderStorage) -> None:
    log = writer(storage)
    old, new = log.append(numbered(0, 5)), log.append(numbered(5, 9))
    proof = open_log(storage.read, new).consistency(old.size)

    assert proves_consistency(old.size, old.root, new.size, new.root, proof)


def test_tiles_without_a_head_do_not_count(storage: FolderStorage) -> None:
    writer(storage).append(numbered(0, 3))
    before = storage.read("log/checkpoint")
    assert before
    writer(storage, head_of(storage)).append(numbered(3, 5))
    storage.replace("log/checkpoint", before)  # as if killed before the head was written

    again = writer(storage, head_of(storage))
    again.append([b"another"])
    reader = open_log(storage.read, head_of(storage))
    assert reader.entries() == [*numbered(0, 3), b"another"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log/tile/0/000.p/3", "log/tile/entries/000.p/3"])
def test_each_changed_byte_of_a_tile_is_noticed(storage: FolderStorage, name: str) -> None:
    writer(storage).append(numbered(0, 3))
    whole = storage.read(name) or b""
    for at in range(len(whole)):
        storage.replace(name, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError, match=r"expected (the|entries|3 hashes)"):
            open_log(storage.read, head_of(storage)).entries()


def test_entries_and_lower_hashes_cannot_be_exchanged(
    storage: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    head = writer(storage).append(numbered(0, 300))  # tile 1 has the hash of the first 256
    others = numbered(1000, 1256)
    storage.replace("log/tile/entries/000", bundle(others))
    storage.replace("log/tile/0/000", b"".join(map(leaf_hash, others)))
    with raises("rounds.bad_tile", "expected the hashes of the tiles below"):
        open_log(storage.read, head)


@pytest.mark.slow
def test_each_changed_byte_of_a_head_is_noticed(storage: FolderStorage) -> None:
    writer(storage).append(numbered(0, 3))
    whole = storage.read("log/checkpoint") or b""
    for at in range(len(whole)):
        storage.replace("log/checkpoint", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError, match="log head: expected"):
            head_of(storage)


def test_a_head_of_another_log_or_without_a_signature_is_refused(storage: FolderStorage) -> None:
    head = writer(storage).append([b"one"])
    with raises("rounds.other_log", "expected one of 'other', got one of 'round'"):
        read_head(storage.read("log/checkpoint"), "other", KEY, {KEY: valid})
    storage.replace("log/checkpoint", signed_note(head, {NoteKey("mallory", b"k"): bytes(64)}))
    with raises("rounds.unsigned_head", "expected a signature of 'round/log', got none"):
        head_of(storage)


def test_a_log_that_is_not_there_is_not_available(storage: FolderStorage) -> None:
    with raises("rounds.no_head") as caught:
        head_of(storage)
    assert caught.value.code == "rounds.no_head"


def test_an_empty_or_too_long_entry_adds_nothing(
    storage: FolderStorage,
) -> None:
    log = writer(storage)
    for entry in (b"", bytes(65_536)):
        with raises("rounds.entry_size", "expected 1 to 65535 bytes"):
            log.append([b"first", entry])
    assert log.head == EMPTY
    assert storage.read("log/checkpoint") is None


def test_a_failed_write_adds_nothing(
    storage: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = writer(storage)
    log.append([b"first"])

    def full(name: str, content: bytes) -> None:
        raise StorageError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "replace", full)
        with pytest.raises(StorageError):
            log.append([b"second"])
    log.append([b"third"])
    assert open_log(storage.read, head_of(storage)).entries() == [b"first", b"third"]
