"""Keys of Ed25519 (RFC 8032): bytes that they sign, public ones as text, and the user's own.

The user's key is one file in the data folder, made once, that only its owner may read. Libraries
and contributions are signed with it. It is not backed up, and has no password: whoever can read the
user's files can sign in the user's name. Only this file knows the library `cryptography`.
"""

import hashlib
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import private_path, storage_errors, sync_folder
from zoo.gym.paths import PRIVATE_FILE, ensure_folder, folders

PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64

_PRIME = 2**255 - 19
_EIGHTH = 0x5FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})
"""The ordinates of points of small order: anybody can make signatures of such a key."""


def new_private() -> bytes:
    """Returns a new private key of the system's random numbers."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return bytes(Ed25519PrivateKey.generate().private_bytes_raw())


def public_of(private: bytes) -> bytes:
    """Returns the public key of a private one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return bytes(Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


def sign_bytes(private: bytes, message: bytes) -> bytes:
    """Returns the signature of a message: the same bytes for the same key and message."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return bytes(Ed25519PrivateKey.from_private_bytes(private).sign(message))


def is_weak(public: bytes) -> bool:
    """Returns whether a key is of small order, or not written as RFC 8032 writes it."""
    ordinate = int.from_bytes(public, "little") % 2**255
    return ordinate >= _PRIME or ordinate in _WEAK


def is_signature(public: bytes, message: bytes, signature: bytes) -> bool:
    """Returns whether a signature of a message is that of a key; any bytes may be given.

    A weak key has no signatures, see `is_weak`.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if is_weak(public):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):  # ValueError: a key of another length
        return False
    return True


def to_pem(private: bytes) -> bytes:
    """Returns a private key as PEM (PKCS 8), which other programs read."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(private)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return bytes(pem)


def from_pem(content: bytes) -> bytes | None:
    """Returns the private key in a PEM file; None for another kind or one with a password."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        return None
    return bytes(key.private_bytes_raw()) if isinstance(key, Ed25519PrivateKey) else None


_TEXT = re.compile(rf"ed25519:([0-9a-f]{{{2 * PUBLIC_BYTES}}})")
_GROUP = 4
_FINGERPRINT_DIGITS = 16


@dataclass(frozen=True, order=True)
class PublicKey:
    """A public key of Ed25519.

    Attributes:
        raw: its 32 bytes.
    """

    raw: bytes

    def __str__(self) -> str:
        """The text form: `ed25519:` and 64 hexadecimal digits."""
        return f"ed25519:{self.raw.hex()}"

    @property
    def fingerprint(self) -> str:
        """The start of the key's SHA-256 in groups, for people to compare; never trusted alone."""
        digits = hashlib.sha256(self.raw).hexdigest()[:_FINGERPRINT_DIGITS]
        return "-".join(digits[at : at + _GROUP] for at in range(0, len(digits), _GROUP))


def parse_key(text: object) -> PublicKey:
    """Returns the public key with a text form.

    Raises:
        InputError: it is none, or one of small order.
    """
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(
            "key: expected ed25519: and 64 hexadecimal digits, got another text",
            hint="its owner prints it: zoo-gym keys show",
            code="signing.bad_key",
        )
    raw = bytes.fromhex(match[1])
    if is_weak(raw):
        raise InputError(
            f"key {text}: expected a key of its owner alone, got one of small order, for which "
            "anybody can sign",
            code="signing.weak_key",
        )
    return PublicKey(raw)


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
    private = from_pem(_read_own(path))
    if private is None:
        raise InputError(
            f"{path}: expected a private key of Ed25519, got something else",
            hint="restore the file, or move it away: zoo-gym keys create then makes another key",
            code="signing.not_a_private_key",
        )
    return OwnKey(private, PublicKey(public_of(private)))


def create_key() -> OwnKey:
    """Makes the user's key; it never replaces one.

    Raises:
        FileExistsError: there is a file already.
        StorageError: it cannot be written.
    """
    path = key_file()
    ensure_folder(path.parent)
    private = new_private()
    beside = private_path(path)
    try:
        with storage_errors(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(beside, flags, PRIVATE_FILE), "wb") as file:
                file.write(to_pem(private))
                file.flush()
                os.fsync(file.fileno())
        _place(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return OwnKey(private, PublicKey(public_of(private)))


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
                raise InputError(
                    f"{path}: expected a file, got a symbolic link", code="signing.not_a_file"
                )
            handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            raise NotAvailableError(
                f"{path}: expected your key, got nothing",
                hint="zoo-gym keys create",
                code="signing.no_key",
            ) from None
        with os.fdopen(handle, "rb") as file:
            _refuse_others(path, os.fstat(file.fileno()))
            return file.read(_MOST_BYTES)


def _refuse_others(path: Path, status: os.stat_result) -> None:
    """Refuses a file that is not the user's alone; Windows has neither owner nor mode here."""
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: expected a file, got something else", code="signing.not_a_file")
    if os.name == "nt":
        return
    if status.st_uid != os.geteuid():
        raise InputError(
            f"{path}: expected a key of user {os.geteuid()}, got one of user {status.st_uid}",
            code="signing.owner",
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & ~PRIVATE_FILE:
        raise InputError(
            f"{path}: expected mode 600, got {mode:o}: others may have read your key",
            hint=f"if nobody has: chmod 600 '{path}'; else move it away, and zoo-gym keys create "
            "makes another one",
            code="signing.mode",
        )
