"""Sealed messages, and the maker's key that opens them.

HPKE (RFC 9180) in base mode, from the library `cryptography`: DHKEM(X25519, HKDF-SHA256),
HKDF-SHA256 and ChaCha20-Poly1305; the message is the 32 bytes of the sender's one-time key and the
sealed text. Base mode does not say who sealed it: the round's commitments do. The info string binds
a message to its round and its contributor.

The private half of the round's key is one file on the maker's machine. It opens every contribution,
so it is deleted once the result is published: what was sealed stays sealed, also for whoever gets
into this machine later.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import (
    read_errors,
    read_small,
    remove_file,
    storage_errors,
    sync_folder,
    write_beside,
)
from zoo.gym.paths import ensure_folder, folders

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

_TEXT = "x25519:"


def key_text(public: bytes) -> str:
    """Returns a public key as text."""
    return _TEXT + public.hex()


def new_key() -> bytes:
    """Returns a new private key of the system's random numbers."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return bytes(X25519PrivateKey.generate().private_bytes_raw())


def public_of(private: bytes) -> bytes:
    """Returns the public key of a private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return bytes(X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


def info_for(round_id: str, contributor: str) -> bytes:
    """Returns what binds a message to a round and a contributor."""
    return f"zoo-gym sealed 1\n{round_id}\n{contributor}\n".encode()


def seal(message: bytes, key: str, info: bytes) -> bytes:
    """Returns a message that only the holder of a private key can open.

    Args:
        message: at most 2^31 - 17 bytes.
        key: the public key as text.
        info: see `info_for`.

    Raises:
        InputError: the key is none, or one of small order, which everybody could open.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        public = X25519PublicKey.from_public_bytes(bytes.fromhex(key.removeprefix(_TEXT)))
        return bytes(_suite().encrypt(message, public, info))
    except ValueError:
        raise InputError(
            f"key: expected a public key of X25519, got {key[:80]!r}", code="rounds.bad_round_key"
        ) from None


def open_sealed(sealed: bytes, private: bytes, info: bytes) -> bytes:
    """Returns the message in a sealed one.

    Raises:
        InputError: it was sealed to another key, for another round or contributor, or changed.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    try:
        key = X25519PrivateKey.from_private_bytes(private)
        return bytes(_suite().decrypt(sealed, key, info))
    except (InvalidTag, ValueError):
        raise InputError(UNOPENED, code="rounds.not_opened") from None


UNOPENED = "expected a message sealed to the round's key by this contributor, got another"


def _suite() -> "Suite":
    from cryptography.hazmat.primitives import hpke

    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


_DIGITS = re.compile(r"[0-9a-f]{64}\n?")


def keep_round_key(private: bytes) -> str:
    """Keeps the private half of a key here, and returns the public one as text.

    Raises:
        StorageError: it cannot be written.
    """
    text = key_text(public_of(private))
    path = _path(text)
    ensure_folder(path.parent)
    write_beside(path, private.hex() + "\n", sync=True)
    return text


def load_round_key(text: str, void: str) -> bytes:
    """Returns the private half of a key.

    Args:
        text: the public half.
        void: the command that makes the round void.

    Raises:
        NotAvailableError: it is not on this machine.
        InputError: the file has another key.
    """
    path = _path(text)
    with read_errors(path):
        try:
            content = read_small(path, most_bytes=100).decode("ascii", "replace")
        except FileNotFoundError:
            raise NotAvailableError(
                f"{path}: expected the key that opens the round's contributions, got nothing",
                hint="it is on the machine that ran zoo-gym round create, until the result is out; "
                f"if it is lost, make the round void: {void}",
                code="rounds.round_key_lost",
            ) from None
    private = bytes.fromhex(content) if _DIGITS.fullmatch(content) else b""
    if not private or key_text(public_of(private)) != text:
        raise InputError(
            f"{path}: expected the private half of {text}, got something else",
            code="rounds.other_round_key",
        )
    return private


def forget_round_key(text: str) -> None:
    """Deletes the private half of a key; a missing one is accepted.

    Raises:
        StorageError: it cannot be deleted.
    """
    path = _path(text)
    with storage_errors(path), suppress(FileNotFoundError):
        remove_file(path)
        sync_folder(path.parent)


def _path(text: str) -> Path:
    return folders().data / "rounds" / "sealing" / f"{text.removeprefix('x25519:')}.key"
