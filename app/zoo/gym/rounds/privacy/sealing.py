"""Sealed messages: HPKE (RFC 9180) in base mode, from the library `cryptography`.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305; the message is the 32 bytes of the
sender's one-time key and the sealed text. Base mode does not say who sealed it: the round's
commitments do. The info string binds a message to its round and its contributor.
"""

from typing import TYPE_CHECKING

from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

OVERHEAD = 32 + 16
"""Bytes that a sealed message has more: the one-time key and the tag."""

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
        raise InputError(f"key: expected a public key of X25519, got {key[:80]!r}") from None


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
        raise InputError(UNOPENED) from None


UNOPENED = "expected a message sealed to the round's key by this contributor, got another"


def _suite() -> "Suite":
    from cryptography.hazmat.primitives import hpke

    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)
