"""Signatures: one Ed25519 key a user, and objects that it signs.

`ed25519` signs bytes, `public_key` writes keys as text, `own_key` keeps the user's key on the disk,
`signed` has the form of a signed object, `trusted` the keys of others.
"""

from zoo.gym.signing.own_key import OwnKey, create_key, has_key, load_key, own_key
from zoo.gym.signing.public_key import PublicKey, parse_key
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
