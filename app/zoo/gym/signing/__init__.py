"""Signatures: one Ed25519 key a user, and objects that it signs.

`keys` has keys and signatures of bytes, `signed` the form of a signed object, `trusted` the keys of
others.
"""

from zoo.gym.signing.keys import (
    OwnKey,
    PublicKey,
    create_key,
    has_key,
    load_key,
    own_key,
    parse_key,
)
from zoo.gym.signing.signed import Signed, canonical, read_signed, sign, verify, write_signed
from zoo.gym.signing.trusted import YOU, distrust, signer_name, trust, trusted_keys

__all__ = [
    "YOU",
    "OwnKey",
    "PublicKey",
    "Signed",
    "canonical",
    "create_key",
    "distrust",
    "has_key",
    "load_key",
    "own_key",
    "parse_key",
    "read_signed",
    "sign",
    "signer_name",
    "trust",
    "trusted_keys",
    "verify",
    "write_signed",
]
