"""Ed25519 signatures of bytes (RFC 8032); only this file knows the library `cryptography`."""

PRIVATE_BYTES = PUBLIC_BYTES = 32
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
