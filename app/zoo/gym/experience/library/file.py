"""The file of a library: canonical JSON, a lesson a block, with a BLAKE3 digest of itself.

The digest is taken over the whole file with its own characters as zeros, as in a delta. There is
one way to write a library, and a reader refuses any other: no clock, no task, no unknown key. A
library that the reader would refuse is not written either. The signature beside the file says who
vouches for the library.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.library.evidence import checked_evidence, is_count, is_line
from zoo.gym.experience.library.item import Item, is_item_id, lesson_text
from zoo.gym.experience.library.library import Library
from zoo.gym.files import new_file, read_small
from zoo.gym.signing import PublicKey, own_key, read_signed, sign, write_signed

FORMAT = "zoo-gym experience 1"
CONTEXT = "experience library"
"""The context of a signature."""

MOST_BYTES = 1_000_000

_START = '{\n "digest": "'
_DIGITS = 64


def write_library(path: Path, library: Library) -> str:
    """Writes a library and returns its digest.

    Raises:
        InputError: `read_library` would refuse it; or see `zoo.gym.files.check_new_file`.
        StorageError: it cannot be written.
    """
    from zoo.core import file_digest

    zeros = "0" * _DIGITS
    try:
        content = _bytes(library, zeros)
        same, _ = _library(json.loads(content))
    except InputError as error:
        raise InputError(
            f"library: expected one that can be read again: {error.message}",
            code="experience.unwritable_library",
        ) from None
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            "library: expected finite numbers and text in UTF-8, got others",
            code="experience.unwritable_library",
        ) from None
    if same != library or _bytes(same, zeros) != content or len(content) > MOST_BYTES:
        raise InputError(
            f"library: expected at most {MOST_BYTES:,} bytes that are read as the same library, "
            f"got {len(content):,}",
            code="experience.unwritable_library",
        )
    with new_file(path) as beside:
        beside.write_bytes(content)
        digest = file_digest(beside, zero_at=len(_START), zero_len=_DIGITS)
        beside.write_bytes(_bytes(library, digest))
    return digest


def read_library(path: Path) -> tuple[Library, str]:
    """Returns the library in a file and its digest.

    Raises:
        NotAvailableError: there is no file.
        InputError: it is no library, was changed, or is of another version.
    """
    from zoo.core import file_digest

    try:
        content = read_small(path, most_bytes=MOST_BYTES)
    except FileNotFoundError:
        raise NotAvailableError(
            f"{path}: expected the file of a library, found no such file",
            code="experience.no_such_file",
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"{path}: expected a library: {reason}", code="experience.unreadable_file"
        ) from None
    try:
        fields: object = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or cast("dict[str, object]", fields).get("format") != FORMAT:
        raise InputError(
            f"{path}: expected a library of format '{FORMAT}', got another file",
            code="experience.no_library_file",
        )
    try:
        library, digest = _library(cast("dict[str, object]", fields))
    except InputError as error:
        raise InputError(f"{path}: {error.message}", code=error.code) from None
    try:
        is_unchanged = _bytes(library, digest) == content
    except ValueError:  # such as a NaN, which no file can have
        is_unchanged = False
    if not is_unchanged:
        raise InputError(
            f"{path}: expected an unchanged library, got one that was edited",
            code="experience.changed_library",
        )
    if file_digest(path, zero_at=len(_START), zero_len=_DIGITS) != digest:
        raise InputError(
            f"{path}: expected a file with the digest that it names, got a changed one",
            hint="texts changed by hand: export as Markdown, change that, and import it",
            code="experience.changed_library",
        )
    return library, digest


def digest_start(digest: str) -> bytes:
    """Returns the start of the file of a library with a digest."""
    return f"{_START}{digest}".encode()


def _bytes(library: Library, digest: str) -> bytes:
    fields = {key: getattr(library, key) for key in ("model", "teacher", "domain", "parent")}
    fields |= {"format": FORMAT, "evidence": dict(library.evidence)}
    fields["items"] = [_fields(item) for item in library.items]
    if library.seen:
        fields["seen"] = list(library.seen)
    rest = json.dumps(fields, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f'{_START}{digest}",{rest[1:]}\n'.encode()


def _fields(item: Item) -> dict[str, object]:
    optional: dict[str, object] = {"pinned": True} if item.pinned else {}
    optional |= {"author": item.author} if item.author else {}
    return {
        **optional,
        "id": item.id,
        "text": item.text,
        "parents": list(item.parents),
        "sources": list(item.sources),
        "better": item.better,
        "worse": item.worse,
        "model": item.model,
        "step": item.step,
        "licence": item.licence,
        "evidence": dict(item.evidence),
    }


def _library(fields: Mapping[str, Any]) -> tuple[Library, str]:
    try:
        items = tuple(_item(cast("dict[str, Any]", item)) for item in fields["items"])
        named = (fields[key] for key in ("model", "teacher", "domain", "parent", "digest"))
        model, teacher, domain, parent, digest = map(_text, named)
        evidence, seen = checked_evidence(fields["evidence"]), tuple(_ids(fields.get("seen", [])))
        return Library(items, model, teacher, domain, parent, evidence, seen), digest
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            f"not a library: {type(error).__name__} {error}", code="experience.damaged_library"
        ) from None


def _item(fields: Mapping[str, Any]) -> Item:
    text = _text(fields["text"])
    if lesson_text(text) != text:
        raise InputError("lesson: expected one line with single blanks", code="experience.lesson")
    return Item(
        text,
        tuple(_ids(fields["parents"])),
        tuple(_ids(fields["sources"])),
        better=_count(fields["better"]),
        worse=_count(fields["worse"]),
        model=_text(fields["model"]),
        step=_count(fields["step"]),
        licence=_text(fields["licence"]),
        evidence=checked_evidence(fields["evidence"]),
        pinned=fields.get("pinned") is True,
        author=_text(fields.get("author", "")),
    )


def _text(value: object) -> str:
    if not is_line(value):
        raise ValueError("expected text on one line")
    return cast("str", value)


def _ids(value: object) -> list[str]:
    if not isinstance(value, list) or not all(map(is_item_id, cast("list[object]", value))):
        raise ValueError("expected a list of ids")
    return cast("list[str]", value)


def _count(value: object) -> int:
    if not is_count(value):
        raise ValueError("expected a count")
    return cast("int", value)


def signature_file(path: Path) -> Path:
    """Returns the path of a library's signature: beside its file."""
    return path.with_name(f"{path.name}.sig")


def sign_library(path: Path, digest: str) -> None:
    """Signs a library with the user's key.

    Raises:
        InputError: the user's key cannot be used.
        StorageError: the signature cannot be written.
    """
    write_signed(signature_file(path), sign(own_key(), CONTEXT, {"digest": digest}))


def signer_of(path: Path, digest: str) -> PublicKey | None:
    """Returns who signed a library, None if nobody did.

    Raises:
        InputError: the signature is damaged, or that of another library.
    """
    beside = signature_file(path)
    try:
        signed = read_signed(beside, CONTEXT)
    except NotAvailableError:
        return None
    if signed.body != {"digest": digest}:
        raise InputError(
            f"{beside}: expected the signature of '{path.name}' as it is, got another one: one of "
            "the two files was changed",
            code="experience.wrong_signature",
        )
    return signed.key


def as_foreign(library: Library) -> Library:
    """Returns a library without evidence or steps: anybody could have written its file.

    The sources of lessons stay.
    """
    blank: dict[str, Any] = {"step": 0, "evidence": {}, "pinned": False, "author": ""}
    items = tuple(replace(item, **blank) for item in library.items)
    return replace(library, items=items, parent="", evidence={})
