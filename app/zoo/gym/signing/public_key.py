"""Public keys as people write and compare them."""

import hashlib
import re
from dataclasses import dataclass

from zoo.gym.errors import InputError
from zoo.gym.signing.ed25519 import PUBLIC_BYTES, is_weak

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
        )
    raw = bytes.fromhex(match[1])
    if is_weak(raw):
        raise InputError(
            f"key {text}: expected a key of its owner alone, got one of small order, for which "
            "anybody can sign"
        )
    return PublicKey(raw)
