"""What the participants of a round sign: each object is one entry of its log.

A contributor first commits to a file by a hash that also binds a nonce and the contributor's key,
and reveals it when nobody can commit any more: so nobody can copy another's contribution.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field

from zoo.gym.errors import InputError
from zoo.gym.signing import PublicKey, Signed, canonical, verify

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A digest of 32 bytes."""

MOST_TEXT = 2000
"""Characters of a sentence in an entry."""

MOST_NAME = 200


class Terms(BaseModel):
    """Part of an entry: strict JSON with no field but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*")

FIRST_YEAR_BEYOND = "9990"
"""Deadlines can be extended, and Python's years end with 9999."""


def as_function(name: str) -> str:
    """Returns `module:function` as it is; whether there is one only its machine can say.

    Raises:
        ValueError: the name has another form, or that of a file.
    """
    file = name.partition(":")[0].endswith(".py")
    if file or len(name) > MOST_NAME or not _FUNCTION.fullmatch(name):
        raise ValueError(f"expected module:function, got {name!r:.60}")
    return name


def as_time(text: str) -> str:
    """Returns a time in UTC as it is.

    Raises:
        ValueError: there is no such day or hour, or no time a year after it.
    """
    try:
        exists = datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%SZ") == text
    except ValueError:
        exists = False
    if not exists:
        raise ValueError(f"expected a time as 2026-12-31T23:59:59Z, got {text!r:.60}")
    if text >= FIRST_YEAR_BEYOND:
        raise ValueError(f"expected a time before the year {FIRST_YEAR_BEYOND}, got {text!r}")
    return text


def as_tuple(value: object) -> object:
    """Returns a list of JSON as a tuple, anything else as it is."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def is_text(value: object) -> bool:
    """Returns whether a value is a sentence: one line of printable characters."""
    return isinstance(value, str) and 0 < len(value) <= MOST_TEXT and _is_line(value)


def as_text(text: str, most: int = MOST_TEXT) -> str:
    r"""Returns what may be anybody's words as a sentence that an entry may have.

    Characters that are not printable in Unicode 3.2, and so not in every version of Python, become
    escapes, and what is too long is cut: the same words on every machine.

    Example:
        >>> as_text("too bad\nphase: published")
        'too bad\\x0aphase: published'
    """
    line = (
        "".join(char if _is_plain(char) else _escaped(char) for char in text) or "no reason given"
    )
    return line if len(line) <= most else f"{line[: most - 3]}..."


def quoted(text: str) -> str:
    """Returns what may be anybody's words in quotes, the same with every version of Python."""
    return ascii(text)


def as_line(value: str) -> str:
    """Returns a name that every machine reads and shows alike.

    Raises:
        ValueError: a character is not printable, or not of Unicode 3.2.
    """
    if not _is_line(value):
        raise ValueError(f"expected printable characters of Unicode 3.2, got {value!a:.60}")
    return value


def _is_line(text: str) -> bool:
    return all(_is_plain(char) for char in text)


def _is_plain(char: str) -> bool:
    # the soft hyphen was a dash in 3.2, and is invisible since
    return char == " " or (char != "\xad" and unicodedata.ucd_3_2_0.category(char)[0] not in "CZ")


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_known_everywhere(text: str) -> bool:
    """Returns whether a text has characters of Unicode 3.2 alone.

    Versions of Python differ in whether a later character is a letter or printable and in its lower
    case, and would decide differently about the text.
    """
    return all(unicodedata.ucd_3_2_0.category(char) != "Cn" for char in text)


MANIFEST, COMMIT, CLOSE = "round manifest", "round commit", "round close"
REVEAL, LOT, REFUSAL = "round reveal", "round lot", "round refusal"
RECORD, RESULT, VOID = "round record", "round result", "round void"
CONTEXTS = (MANIFEST, COMMIT, CLOSE, LOT, REVEAL, REFUSAL, RECORD, RESULT, VOID)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 1 << 40


def commitment(digest: str, nonce: str, key: PublicKey) -> str:
    """Returns what a contributor commits to: H(delta, nonce, key).

    Args:
        digest: BLAKE3 of the contribution's file.
        nonce: 64 random hexadecimal digits.
    """
    return sha256(f"zoo-gym commitment 1\n{digest}\n{nonce}\n{key}\n".encode()).hexdigest()


def nonce_commitment(nonce: str) -> str:
    """Returns what a manifest says of the maker's nonce, 64 hexadecimal digits."""
    return sha256(f"zoo-gym lot 1\n{nonce}\n".encode()).hexdigest()


@dataclass(frozen=True)
class Reveal:
    """What a contributor reveals.

    Attributes:
        digest: BLAKE3 of the contribution's file.
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
    body = cast("Mapping[str, Any]", checked(signed, {"round": is_hex, **REVEALED}))
    return Reveal(**{name: body[name] for name in REVEALED})


def encode(signed: Signed) -> bytes:
    """Returns the bytes of an entry."""
    return canonical(signed.as_json())


def decode(entry: bytes) -> Signed:
    """Returns the signed object in an entry, its signature checked.

    Raises:
        InputError: it is none of a round, was changed, or is not in canonical JSON.
    """
    try:
        parsed: object = json.loads(entry)
    except (ValueError, RecursionError):
        raise InputError(
            "entry: expected a signed object in JSON, got other bytes", code="rounds.bad_entry"
        ) from None
    context = cast("dict[str, object]", parsed).get("context") if isinstance(parsed, dict) else None
    if context not in CONTEXTS:
        raise InputError(
            f"entry: expected an object of a round, got {str(context)[:60]!r}",
            code="rounds.bad_entry",
        )
    signed = verify(parsed, str(context))
    if encode(signed) != entry:
        raise InputError(
            "entry: expected canonical JSON, got another form of it", code="rounds.bad_entry"
        )
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
            raise InputError(
                f"{kind}: expected {', '.join(fields)}, got {name!r:.60} as well",
                code="rounds.entry_fields",
            )
        if name not in body or not fields[name](body[name]):
            raise InputError(
                f"{kind}.{name}: expected another value, got {body.get(name)!r:.80}",
                code="rounds.entry_fields",
            )
    return body


def is_hex(value: object) -> bool:
    """Returns whether a value is a digest."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_size(value: object) -> bool:
    """Returns whether a value is a number of bytes or examples."""
    return type(value) is int and 0 <= value <= _MOST_BYTES


REVEALED = {
    "digest": is_hex,
    "bytes": is_size,
    "chunks": is_hex,
    "nonce": is_hex,
    "examples": is_size,
}
