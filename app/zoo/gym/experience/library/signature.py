"""The signature beside a library's file: who vouches for what the library says of itself."""

from dataclasses import replace
from pathlib import Path

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.experience.library.library import Library
from zoo.gym.signing import PublicKey, own_key, read_signed, sign, write_signed

CONTEXT = "experience library"


def signature_file(path: Path) -> Path:
    """Returns the place of a library's signature: beside its file."""
    return path.with_name(f"{path.name}.sig")


def sign_library(path: Path, digest: str) -> None:
    """Signs a library with the user's key.

    Args:
        path: its file.
        digest: the file's digest, which is what is signed.

    Raises:
        InputError: the user's key cannot be used.
        StorageError: the signature cannot be written.
    """
    write_signed(signature_file(path), sign(own_key(), CONTEXT, {"digest": digest}))


def signer_of(path: Path, digest: str) -> PublicKey | None:
    """Returns who signed a library, None if nobody did.

    Args:
        path: its file.
        digest: the digest of the file as it was read.

    Raises:
        InputError: the signature is none, or that of another library.
    """
    beside = signature_file(path)
    try:
        signed = read_signed(beside, CONTEXT)
    except NotAvailableError:
        return None
    if signed.body != {"digest": digest}:
        raise InputError(
            f"{beside}: expected the signature of '{path.name}' as it is, got another one: one of "
            "the two files was changed"
        )
    return signed.key


def as_foreign(library: Library) -> Library:
    """Returns a library of which nothing counts as measured: anybody could have written its file.

    Where lessons come from stays; that they were learned at a step, and all evidence, does not.
    """
    items = tuple(
        replace(item, step=0, evidence={}, pinned=False, author="") for item in library.items
    )
    return replace(library, items=items, parent="", evidence={})
