"""The user's own key: one file in the data folder, made once, that only its owner may read.

Libraries and contributions are signed with it. It is not backed up, and has no password: who can
read the user's files can sign in the user's name.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import private_path, storage_errors, sync_folder
from zoo.gym.paths import PRIVATE_FILE, ensure_folder, folders
from zoo.gym.signing import ed25519
from zoo.gym.signing.public_key import PublicKey

_MOST_BYTES = 4096


@dataclass(frozen=True)
class OwnKey:
    """A key that can sign; its secret is in no text form.

    Attributes:
        private: the secret, 32 bytes.
        public: what others know.
    """

    private: bytes = field(repr=False)
    public: PublicKey


def key_file() -> Path:
    """Returns the place of the user's key."""
    return folders().data / "keys" / "own.pem"


def has_key() -> bool:
    """Returns whether the user has a key, which may be unusable."""
    return os.path.lexists(key_file())


def own_key() -> OwnKey:
    """Returns the user's key, which is made now if there is none.

    Raises:
        InputError: the file is no key, or others could read it.
        StorageError: it cannot be written.
    """
    with suppress(NotAvailableError):
        return load_key()
    with suppress(FileExistsError):
        return create_key()
    return load_key()  # another process was faster


def load_key() -> OwnKey:
    """Returns the user's key.

    Raises:
        NotAvailableError: there is none.
        InputError: the file is no key, belongs to somebody else, or others may read it.
        StorageError: it cannot be read.
    """
    path = key_file()
    private = ed25519.from_pem(_read_own(path))
    if private is None:
        raise InputError(
            f"{path}: expected a private key of Ed25519, got something else",
            hint="restore the file, or move it away: zoo-gym keys create then makes another key",
        )
    return OwnKey(private, PublicKey(ed25519.public_of(private)))


def create_key() -> OwnKey:
    """Makes the user's key; it never replaces one.

    Raises:
        FileExistsError: there is a file already.
        StorageError: it cannot be written.
    """
    path = key_file()
    ensure_folder(path.parent)
    private = ed25519.new_private()
    beside = private_path(path)
    try:
        with storage_errors(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(beside, flags, PRIVATE_FILE), "wb") as file:
                file.write(ed25519.to_pem(private))
                file.flush()
                os.fsync(file.fileno())
        _place(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return OwnKey(private, PublicKey(ed25519.public_of(private)))


def _place(beside: Path, path: Path) -> None:
    with storage_errors(path):
        try:
            os.link(beside, path)  # unlike a renaming it replaces nothing
        except FileExistsError:
            exists = True
        else:
            exists = False
            sync_folder(path.parent)
    if exists:
        raise FileExistsError(str(path))


def _read_own(path: Path) -> bytes:
    """Returns the content of a file that is the user's alone."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with storage_errors(path):
        try:
            if path.is_symlink():
                raise InputError(f"{path}: expected a file, got a symbolic link")
            handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            raise NotAvailableError(
                f"{path}: expected your key, got nothing", hint="zoo-gym keys create"
            ) from None
        with os.fdopen(handle, "rb") as file:
            _refuse_others(path, os.fstat(file.fileno()))
            return file.read(_MOST_BYTES)


def _refuse_others(path: Path, status: os.stat_result) -> None:
    """Refuses a file that is not the user's alone; Windows has neither owner nor mode here."""
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: expected a file, got something else")
    if os.name == "nt":
        return
    if status.st_uid != os.geteuid():
        raise InputError(
            f"{path}: expected a key of user {os.geteuid()}, got one of user {status.st_uid}"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & ~PRIVATE_FILE:
        raise InputError(
            f"{path}: expected mode 600, got {mode:o}: others may have read your key",
            hint=f"if nobody has: chmod 600 '{path}'; else move it away, and zoo-gym keys create "
            "makes another one",
        )
