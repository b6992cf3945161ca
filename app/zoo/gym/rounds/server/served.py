"""The rounds that a server keeps: reads their files, and checks what is written before it is kept.

What is kept under a digest has it, an entry is signed, a head continues the last one. Everything
else of a round is for its readers to check, as with any other storage.
"""

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from zoo.gym.errors import InputError, StorageError
from zoo.gym.files import read_errors
from zoo.gym.files.lock import locked
from zoo.gym.http_guard.gate import RefusedError
from zoo.gym.paths import FULL
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import read_manifest, round_id
from zoo.gym.rounds.server.config import Role
from zoo.gym.rounds.server.heads import Kept, Latest, check_head, check_tile, check_witness
from zoo.gym.rounds.server.limits import RESERVE, Inbox, Quota
from zoo.gym.rounds.session.opening import MANIFEST, stored_manifest
from zoo.gym.rounds.session.writing import lock_file
from zoo.gym.rounds.storage.base import MOST_BYTES_OF as MOST
from zoo.gym.rounds.storage.base import FileKind, FolderStorage, NoFileError, file_kind
from zoo.gym.rounds.storage.chunks import CHUNK_BYTES
from zoo.gym.signing import Signed
from zoo.models.resolve import is_same_model

MOST_NAMES = 10_000
"""The most names in one answer."""

WAIT_S = 2.0
"""How long a request waits for another writer of the log."""

_LOCKS = 64

_ROUND = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_MAKERS = {FileKind.MANIFEST, FileKind.HEAD, FileKind.TILE}


@dataclass(frozen=True)
class _Parts:
    """What contributors may fill of a round."""

    chunks: Quota
    inbox: Inbox


class Served:
    """Rounds in folders below one.

    Args:
        folder: has a folder for each round; or is that of a round, which is then the only one.
        base: the only base that rounds may be about; any if None.
        most_bytes: of all files together.

    Raises:
        InputError: the folder is that of a round and has no name that can be one.
        StorageError: it cannot be read.
    """

    def __init__(self, folder: Path, *, base: str | None, most_bytes: int) -> None:
        alone = (folder / MANIFEST).is_file()
        self.only = folder.name if alone else None
        if self.only is not None and not _ROUND.fullmatch(self.only):
            raise InputError(
                f"{folder}: expected a name of small letters, digits, '.', '_' and '-'",
                hint="rename the round's folder",
                code="rounds.bad_round_name",
            )
        self._top, self._base = folder.parent if alone else folder, base
        self._kept: dict[str, Kept] = {}
        self._limits: dict[str, _Parts] = {}
        self._lock, self._most = threading.Lock(), most_bytes
        self._files = tuple(threading.Lock() for _ in range(_LOCKS))
        with read_errors(folder):
            self._used = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())

    def rounds(self) -> list[tuple[str, str]]:
        """Returns the rounds by name, each with its id."""
        with read_errors(self._top):
            names = [path.parent.name for path in self._top.glob(f"*/{MANIFEST}")]
        wanted = [name for name in sorted(names) if self.only in {None, name}]
        return [(name, self._round(name).id) for name in wanted if _ROUND.fullmatch(name)]

    def read(self, name: str, file: str) -> bytes | None:
        """Returns the bytes of a file of a round, None where there is none."""
        return _bytes(self._storage(name), file) if file_kind(file) else None

    def size(self, name: str, file: str) -> int | None:
        """Returns the number of bytes of a file of a round, None where there is none.

        Of a file that is being written it waits for the end, so that a client that lost the answer
        does not send it again.
        """
        if file_kind(file) is None:
            return None
        with self._file(name, file):
            return self._storage(name).size(file)

    def names(self, name: str, folder: str, after: str) -> list[str]:
        """Returns names of a folder of a round in order, from the one after `after` on."""
        found = self._storage(name).names(folder)
        return [one for one in found if one > after and file_kind(one)][:MOST_NAMES]

    def most(self, role: Role, file: str) -> int:
        """Returns how many bytes a role may write under a name.

        Raises:
            RefusedError: it may write none.
        """
        kind = file_kind(file)
        if kind is None:
            raise RefusedError(422, "name: expected one that a round has, got another")
        if kind in _MAKERS and role is not Role.MAKER:
            raise RefusedError(403, f"{kind}: expected the token of the round's maker")
        return CHUNK_BYTES if kind is FileKind.CHUNK and role is Role.CONTRIBUTOR else MOST[kind]

    def write(self, role: Role, name: str, file: str, content: bytes) -> bool:
        """Keeps a file, durably, and returns whether it is new or changed.

        Raises:
            RefusedError: it may not be written, or is not what its name says.
            InputError: it is not valid.
            StorageError: the disk refused it.
        """
        most = self.most(role, file)
        if not content:
            raise RefusedError(422, f"{file}: expected bytes, got none")
        if len(content) > most:
            raise RefusedError(413, f"{file}: expected at most {most} bytes, got {len(content)}")
        with self._file(name, file):
            return self._write(role, name, file, content)

    def _file(self, name: str, file: str) -> threading.Lock:
        """Returns the lock of a file, which it shares with a few others."""
        return self._files[hash((name, file)) % _LOCKS]

    def _write(self, role: Role, name: str, file: str, content: bytes) -> bool:
        from zoo.core import digest

        storage = self._storage(name)
        if _bytes(storage, file) == content:
            return False
        match file_kind(file):
            case FileKind.CHUNK:
                kept = self._round(name)
                if digest(content) != file.rpartition("/")[2]:
                    raise RefusedError(422, f"{file}: expected bytes with this digest, got others")
                with self._parts(name, kept).chunks.booked(role, len(content)):
                    self._keep(storage, file, content, role)
            case FileKind.ENTRY:
                kept = self._round(name)
                entry = _checked_entry(kept, file, content)
                with self._parts(name, kept).inbox.booked(role, file, entry):
                    self._keep(storage, file, content, role)
            case FileKind.MANIFEST:
                self._write_manifest(storage, content)
            case _:
                self._write_log(self._round(name), file, content, role)
        return True

    def _write_manifest(self, storage: FolderStorage, content: bytes) -> None:
        signed = objects.decode(content)
        named = read_manifest(signed).base.model
        if self._base is not None and not is_same_model(named, self._base):
            text = f"expected a round about {self._base}, got {named[:80]}"
            raise RefusedError(422, f"manifest: {text}")
        with _alone(round_id(signed), storage.address):
            if storage.size(MANIFEST) is not None:
                raise RefusedError(409, "manifest: expected no round of this name, got another one")
            self._keep(storage, MANIFEST, content, Role.MAKER)

    def _write_log(self, kept: Kept, file: str, content: bytes, role: Role) -> None:
        with _alone(kept.id, kept.storage.address):
            if file_kind(file) is FileKind.HEAD:
                check_head(kept, content)
            elif file_kind(file) is FileKind.WITNESS:
                check_witness(kept, file, content)
            else:
                check_tile(kept, file, content)
            self._keep(kept.storage, file, content, role)

    def _parts(self, name: str, kept: Kept) -> "_Parts":
        with self._lock:
            if name not in self._limits:
                latest = Latest(kept)
                self._limits[name] = _Parts(Quota(latest), Inbox(latest))
            return self._limits[name]

    def _keep(self, storage: FolderStorage, file: str, content: bytes, role: Role) -> None:
        more = len(content) - (storage.size(file) or 0)
        most = self._most - (0 if role is Role.MAKER else self._most // RESERVE)
        with self._lock:
            if self._used + more > most:
                raise RefusedError(507, f"expected at most {most} bytes in all, got more")
            self._used += more
        try:
            storage.replace(file, content)
        except StorageError as error:
            with self._lock:
                self._used -= more
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in FULL:
                raise RefusedError(507, "the server's disk is full") from error
            raise RefusedError(500, "the server cannot write its folder") from error

    def _round(self, name: str) -> Kept:
        if name not in self._kept:
            storage = self._storage(name)
            if storage.size(MANIFEST) is None:
                raise RefusedError(404, f"round {name}: expected one that is here, got another")
            signed = stored_manifest(storage)
            self._kept[name] = Kept(round_id(signed), read_manifest(signed), storage)
        return self._kept[name]

    def _storage(self, name: str) -> FolderStorage:
        if not _ROUND.fullmatch(name) or self.only not in {None, name}:
            raise RefusedError(404, "round: expected one that is here, got another name")
        return FolderStorage((self._top / name).resolve())


@contextmanager
def _alone(round_: str, address: str) -> Generator[None]:
    """Holds the lock of a round's log, which commands on the folder itself hold as well."""
    with locked(lock_file(round_, address), wait_s=WAIT_S) as held:
        if not held:
            raise RefusedError(503, "log: expected to be its only writer, got another program")
        yield


def _bytes(storage: FolderStorage, file: str) -> bytes | None:
    """Returns the bytes of a file, None where there is none: others may write in the folder."""
    with suppress(NoFileError):
        return storage.read(file)
    return None


def _checked_entry(kept: Kept, file: str, content: bytes) -> Signed:
    if f"inbox/{sha256(content).hexdigest()}.json" != file:
        raise RefusedError(422, f"{file}: expected an entry with this digest, got another")
    entry = objects.decode(content)
    if entry.body.get("round") != kept.id:
        raise RefusedError(422, f"entry: expected one of round {kept.id[:12]}, got another's")
    return entry
