"""What the participants of a round sign: each object is one entry of its log.

A contributor first commits to a file by a hash that also binds a nonce and the contributor's key,
and reveals it when nobody can commit any more: so nobody can copy another's contribution.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol.manifest import CONTEXT as MANIFEST
from zoo.gym.signing import PublicKey, Signed, canonical, verify

COMMIT, CLOSE, REVEAL = "round commit", "round close", "round reveal"
LOT, REFUSAL, RECORD = "round lot", "round refusal", "round record"
RESULT, VOID = "round result", "round void"
CONTEXTS = (MANIFEST, COMMIT, CLOSE, LOT, REVEAL, REFUSAL, RECORD, RESULT, VOID)

_HEX = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 1 << 40


def commitment(digest: str, nonce: str, key: PublicKey) -> str:
    """Returns what a contributor commits to: H(delta, nonce, key).

    Args:
        digest: BLAKE3 of the contribution's file.
        nonce: 64 random hexadecimal digits.
        key: the contributor's.
    """
    return sha256(f"zoo-gym commitment 1\n{digest}\n{nonce}\n{key}\n".encode()).hexdigest()


@dataclass(frozen=True)
class Reveal:
    """What a contributor reveals.

    Attributes:
        digest: BLAKE3 of the contribution's file.
        bytes: its size.
        chunks: BLAKE3 of its list of chunks.
        nonce: of the commitment.
        examples: training examples as the contributor says; they count in federated average alone.
    """

    digest: str
    bytes: int
    chunks: str
    nonce: str
    examples: int


def body_of(round_id: str, **fields: object) -> dict[str, object]:
    """Returns the body of an entry of a round."""
    return {"round": round_id, **fields}


def reveal_of(signed: Signed) -> Reveal:
    """Returns what an entry reveals.

    Raises:
        InputError: it lacks a field, or has an unknown one.
    """
    body = checked(signed, _REVEAL)
    return Reveal(
        str(body["digest"]),
        cast("int", body["bytes"]),
        str(body["chunks"]),
        str(body["nonce"]),
        cast("int", body["examples"]),
    )


def encode(signed: Signed) -> bytes:
    """Returns the bytes of an entry."""
    return canonical(signed.as_json())


def decode(entry: bytes) -> Signed:
    """Returns the signed object in an entry, its signature checked.

    Raises:
        InputError: it is none of a round, was changed, or is not in canonical JSON.
    """
    try:
        found: object = json.loads(entry)
    except (ValueError, RecursionError):
        raise InputError("entry: expected a signed object in JSON, got other bytes") from None
    context = cast("dict[str, object]", found).get("context") if isinstance(found, dict) else None
    if context not in CONTEXTS:
        raise InputError(f"entry: expected an object of a round, got {str(context)[:60]!r}")
    signed = verify(found, str(context))
    if encode(signed) != entry:
        raise InputError("entry: expected canonical JSON, got another form of it")
    return signed


def checked(signed: Signed, fields: Mapping[str, Callable[[object], bool]]) -> Mapping[str, object]:
    """Returns the body of an entry that has the given fields and no others.

    Raises:
        InputError: a field is missing, unknown or of another form; identified.
    """
    body = signed.body
    kind = signed.context.removeprefix("round ")
    for name in [*(name for name in fields if name not in body), *sorted(body)]:
        if name not in fields:
            raise InputError(f"{kind}: expected {', '.join(fields)}, got {name!r:.60} as well")
        if name not in body or not fields[name](body[name]):
            raise InputError(f"{kind}.{name}: expected another value, got {body.get(name)!r:.80}")
    return body


def is_hex(value: object) -> bool:
    """Says whether a value is a digest."""
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def is_size(value: object) -> bool:
    """Says whether a value is a number of bytes or examples."""
    return type(value) is int and 0 <= value <= _MOST_BYTES


_REVEAL = {
    "round": is_hex,
    "digest": is_hex,
    "bytes": is_size,
    "chunks": is_hex,
    "nonce": is_hex,
    "examples": is_size,
}
