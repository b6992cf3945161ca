"""Files in chunks: stored once, fetched whole, and never used when they changed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.errors import GymError, InputError, NotAvailableError, StorageError
from zoo.gym.rounds.storage import base as folder
from zoo.gym.rounds.storage import chunks
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.rounds.storage.chunks import chunk_name, describe, fetch, fetch_new, store


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStorage:
    """The folder of a round, and chunks of ten bytes."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 10)
    found = FolderStorage(tmp_path / "storage")
    found.write("manifest.json", b"{}")
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(b"0123456789abcdefghijXYZ")
    return path


@pytest.mark.parametrize("size", [1, 9, 10, 11, 20, 23])
def test_a_file_is_fetched_as_it_was_stored(
    storage: FolderStorage, tmp_path: Path, size: int
) -> None:
    (tmp_path / "source").write_bytes(os.urandom(size))
    stored = store(tmp_path / "source", storage)
    fetch(stored, storage, tmp_path / "copy")

    assert (tmp_path / "copy").read_bytes() == (tmp_path / "source").read_bytes()
    assert stored.bytes == size
    assert stored == describe(tmp_path / "source")[0]


def test_a_chunk_that_is_stored_is_not_written_again(
    storage: FolderStorage, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = FolderStorage.write

    def counted(self: FolderStorage, name: str, content: bytes) -> None:
        if len(written) == 2:
            written.append("cut")
            raise StorageError("cut")
        written.append(name)
        write(self, name, content)

    monkeypatch.setattr(FolderStorage, "write", counted)
    with pytest.raises(StorageError):
        store(source, storage)
    store(source, storage)

    names = [name for name in written if name != "cut"]
    assert len(names) == len(set(names)) == 4  # three chunks and their list


def test_each_changed_byte_is_noticed_and_no_file_appears(
    storage: FolderStorage, source: Path, tmp_path: Path
) -> None:
    stored = store(source, storage)
    for name in storage.names("chunks"):
        whole = storage.read(name) or b""
        storage.replace(name, bytes([whole[0] ^ 1]) + whole[1:])
        with raises("rounds.bad_chunk", "expected its digest"):
            fetch(stored, storage, tmp_path / "copy")
        storage.replace(name, whole)
    assert not (tmp_path / "copy").exists()


def test_a_missing_chunk_is_named(storage: FolderStorage, source: Path, tmp_path: Path) -> None:
    stored, digests = describe(source)
    store(source, storage)
    (storage.folder / chunk_name(digests[1])).unlink()
    with raises("rounds.chunk_missing", f"expected chunk {digests[1][:12]}"):
        fetch(stored, storage, tmp_path / "copy")


def test_a_folder_that_is_gone_is_not_a_missing_chunk(
    storage: FolderStorage, source: Path, tmp_path: Path
) -> None:
    stored = store(source, storage)
    storage.folder.rename(tmp_path / "unplugged")
    with raises("rounds.round_gone") as caught:
        fetch(stored, storage, tmp_path / "copy")
    assert caught.value.code == "rounds.round_gone"


@pytest.mark.parametrize("kind", [NotAvailableError, InputError])
def test_chunk_refused_by_a_server_is_not_missing(
    storage: FolderStorage,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[GymError],
) -> None:
    stored = store(source, storage)

    def away(self: FolderStorage, name: str) -> bytes:
        raise kind("cannot be reached", code="rounds.unauthorized")

    monkeypatch.setattr(FolderStorage, "read", away)
    with raises("rounds.unauthorized") as caught:
        fetch(stored, storage, tmp_path / "copy")
    assert caught.value.code == "rounds.unauthorized"


def test_a_list_of_other_chunks_is_refused(
    storage: FolderStorage, source: Path, tmp_path: Path
) -> None:
    stored = store(source, storage)
    short = chunks.StoredFile(stored.digest, 5, stored.chunks)
    with raises("rounds.bad_chunk", "expected a list of 1 chunks"):
        fetch(short, storage, tmp_path / "copy")
    other = chunks.StoredFile("0" * 64, stored.bytes, stored.chunks)
    with raises("rounds.bad_chunk", "expected its digest"):
        fetch(other, storage, tmp_path / "copy")


def test_folder_or_pipe_instead_of_a_file_is_a_read_error(
    storage: FolderStorage,
) -> None:
    (storage.folder / "a").mkdir()
    os.mkfifo(storage.folder / "b")
    for name in "ab":
        with raises("rounds.no_file", f"cannot read '.*/{name}': not a regular") as caught:
            storage.read(name)
        assert caught.value.hint is None


def test_an_empty_file_is_refused(storage: FolderStorage, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with raises("rounds.chunk_count"):
        store(tmp_path / "empty", storage)


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", ".x", "A", "a b", "a/..", "", "x" * 201])
def test_a_name_that_is_no_safe_path_is_refused(storage: FolderStorage, name: str) -> None:
    for act in (storage.read, storage.size, lambda one: storage.write(one, b"x")):
        with raises("rounds.bad_name") as caught:
            act(name)
        assert caught.value.code == "rounds.bad_name"


def test_other_bytes_under_a_written_name_are_refused(storage: FolderStorage) -> None:
    storage.write("a/b", b"one")
    storage.write("a/b", b"one")
    with raises("rounds.name_taken") as caught:
        storage.write("a/b", b"two")
    assert caught.value.code == "rounds.name_taken"
    assert storage.read("a/b") == b"one"
    assert storage.read("a/c") is None
    assert storage.read("a/b/c") is None


@pytest.mark.parametrize("damaged", [b"", b"0123456780"])
def test_a_damaged_chunk_is_stored_again(
    storage: FolderStorage, source: Path, tmp_path: Path, damaged: bytes
) -> None:
    _, digests = describe(source)
    stored = store(source, storage)
    storage.replace(chunk_name(digests[0]), damaged)
    assert store(source, storage) == stored
    fetch(stored, storage, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _long_link(path: Path) -> None:
    path.symlink_to("x" * 300)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(17 << 20)


OTHERS: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a large file": _large,
    "a loop of links": _loop,
    "a link to no name": _long_link,
    "a device": lambda path: path.symlink_to(os.devnull),
}


@pytest.mark.parametrize("other", OTHERS)
def test_non_file_instead_of_a_chunk_is_other_bytes(
    storage: FolderStorage, source: Path, tmp_path: Path, other: str
) -> None:
    stored = store(source, storage)
    path = storage.folder / chunk_name(describe(source)[1][0])
    path.unlink()
    OTHERS[other](path)
    with raises("rounds.bad_chunk", f"chunk {path.name[:12]}: expected its digest"):
        fetch_new(stored, storage, source)
    (storage.folder / "manifest.json").unlink()
    with raises("rounds.round_gone") as caught:
        fetch(stored, storage, tmp_path / "copy")
    assert caught.value.code == "rounds.round_gone"


@pytest.mark.parametrize("other", OTHERS)
def test_chunk_replaces_non_files_but_not_a_folder(
    storage: FolderStorage, source: Path, tmp_path: Path, other: str
) -> None:
    path = storage.folder / chunk_name(describe(source)[1][0])
    path.parent.mkdir(parents=True)
    OTHERS[other](path)
    if other == "a folder":
        with raises("rounds.is_folder", f"{path.name}: expected .*, got a folder"):
            store(source, storage)
        return
    fetch(store(source, storage), storage, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def test_a_folder_of_chunks_that_is_a_loop_of_links_is_named(
    storage: FolderStorage, source: Path
) -> None:
    path = (storage.folder / chunk_name(describe(source)[1][0])).parent
    path.parent.mkdir()
    _loop(path)
    assert storage.size(chunk_name(describe(source)[1][0])) is None
    with raises("paths.storage", f"/{path.name}"):
        store(source, storage)


@pytest.mark.parametrize("fault", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EINVAL])
def test_a_storage_that_fails_is_no_other_chunk(
    storage: FolderStorage,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: int,
) -> None:
    stored = store(source, storage)

    def failing(path: Path, *, most_bytes: int) -> bytes:
        raise OSError(fault, os.strerror(fault), str(path))

    monkeypatch.setattr(folder, "read_small", failing)
    with raises("paths.storage", "cannot read"):
        fetch(stored, storage, tmp_path / "copy")
