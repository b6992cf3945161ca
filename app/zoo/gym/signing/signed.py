"""Signed objects: canonical JSON under a context, so that each kind has its own signatures.

What is signed is `zoo-gym signed 1`, the context and the canonical JSON, on a line each. A context
is on one line, so no object of a kind has the bytes of another kind's.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_small, write_beside
from zoo.gym.signing.keys import (
    SIGNATURE_BYTES,
    OwnKey,
    PublicKey,
    is_signature,
    parse_key,
    sign_bytes,
)

MOST_BYTES = 16_000_000

_HEADER = b"zoo-gym signed 1\n"
_CONTEXT = re.compile(r"[a-z][a-z0-9 .-]{0,63}")
_SIGNATURE = re.compile(rf"[0-9a-f]{{{2 * SIGNATURE_BYTES}}}")
_KEYS = {"context", "body", "key", "signature"}


@dataclass(frozen=True)
class Signed:
    """An object with a signature that was checked.

    Attributes:
        context: its kind, such as `experience library`.
        body: the object.
        key: who signed it.
        signature: 128 hexadecimal digits.
    """

    context: str
    body: Mapping[str, object]
    key: PublicKey
    signature: str

    def as_json(self) -> dict[str, object]:
        """Returns it as files have it."""
        return {
            "context": self.context,
            "body": dict(self.body),
            "key": str(self.key),
            "signature": self.signature,
        }


def canonical(value: object) -> bytes:
    """Returns the one way to write a JSON value: sorted keys, no blanks, UTF-8.

    Numbers are as Python writes them; NaN and infinities are none of JSON. Equal values of
    different types, as 1 and 1.0, are different.

    Raises:
        InputError: it is no JSON value.
    """
    try:
        _refuse_foreign(value)
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"signed object: expected JSON: {error}", code="signing.not_json"
        ) from None


def _refuse_foreign(value: object) -> None:
    """Refuses what `json` would change on the way: keys that are no text, tuples, subclasses."""
    if isinstance(value, dict):
        for key, inner in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise TypeError(f"expected names as keys, got {type(key).__name__}")
            _refuse_foreign(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            _refuse_foreign(inner)
    elif value is not None and type(value) not in (str, int, float, bool):
        raise TypeError(f"expected text, numbers, lists and mappings, got {type(value).__name__}")


def sign(key: OwnKey, context: str, body: Mapping[str, object]) -> Signed:
    """Returns an object with the signature of a key.

    Args:
        key: signs.
        context: the kind of the object: small letters, digits, blanks, points and hyphens.
        body: the object, of JSON values.

    Raises:
        InputError: it is not of JSON values.
    """
    signature = sign_bytes(key.private, _message(context, body))
    return Signed(context, dict(body), key.public, signature.hex())


def verify(value: object, context: str) -> Signed:
    """Returns a signed object of a kind, as `Signed.as_json` writes it.

    Args:
        value: what was read; anything.
        context: the kind that is expected.

    Raises:
        InputError: it is none, of another kind, or was changed.
    """
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    body, signature = fields.get("body"), fields.get("signature")
    if fields.keys() != _KEYS or not isinstance(body, dict):
        raise InputError(
            "signed object: expected context, body, key and signature, got others",
            code="signing.not_signed",
        )
    if fields["context"] != context:
        raise InputError(
            f"signed object: expected one of kind '{context}', got another kind",
            code="signing.other_kind",
        )
    key = parse_key(fields["key"])
    signed = cast("dict[str, object]", body)
    if not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
        raise InputError(
            "signature: expected 128 hexadecimal digits, got another text",
            code="signing.bad_signature",
        )
    if not is_signature(key.raw, _message(context, signed), bytes.fromhex(signature)):
        raise InputError(
            f"signature: expected that of key {key.fingerprint}, got another one: the object was "
            "changed",
            code="signing.wrong_signature",
        )
    return Signed(context, signed, key, signature)


def write_signed(path: Path, signed: Signed) -> None:
    """Writes a signed object as canonical JSON; its folder exists.

    Raises:
        StorageError: it cannot be written.
    """
    write_beside(path, canonical(signed.as_json()).decode() + "\n", sync=True)


def read_signed(path: Path, context: str) -> Signed:
    """Returns the signed object in a file.

    Raises:
        NotAvailableError: there is no file.
        InputError: it is no signed object of this kind, or was changed.
    """
    try:
        content = read_small(path, most_bytes=MOST_BYTES)
        value: object = json.loads(content)
    except FileNotFoundError:
        raise NotAvailableError(
            f"{path}: expected a signed object, got nothing", code="signing.no_file"
        ) from None
    except (OSError, ValueError, RecursionError):
        raise InputError(
            f"{path}: expected a signed object in JSON, got another file", code="signing.not_signed"
        ) from None
    try:
        signed = verify(value, context)
        if canonical(signed.as_json()) + b"\n" != content:
            raise InputError(
                "signed object: expected canonical JSON, got another form of it",
                code="signing.not_canonical",
            )
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint, code=error.code) from None
    return signed


def _message(context: str, body: Mapping[str, object]) -> bytes:
    if not _CONTEXT.fullmatch(context):
        raise ValueError(f"context: expected small letters, got {context!r}")
    return _HEADER + context.encode() + b"\n" + canonical(dict(body))
