"""Finds a round, and a key, by what a user writes."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from zoo.gym.cli.sources import resolve_base
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import given_path

if TYPE_CHECKING:
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.rounds.storage.base import Storage
    from zoo.gym.signing import PublicKey
    from zoo.models import Resolved


def opened_round(given: str | None, *, offline: bool = False, published: bool = False) -> "Opened":
    """Opens a round by its folder, address, name or id, and keeps where it is.

    Args:
        given: as the user gave it.
        offline: refuses an address.
        published: whether the only round with a result is the default, or the only open one.
    """
    from zoo.gym.rounds.session.known_rounds import find_storage, remember_round
    from zoo.gym.rounds.session.opening import open_round
    from zoo.gym.rounds.storage.base import is_address

    storage, expected = find_storage(given, published=published)
    if is_address(storage.address):
        refuse_offline(storage.address, offline=offline)
    try:
        opened = open_round(storage, expected=expected)
    except InputError as error:
        raise InputError(error.message, hint=error.hint or _seen_elsewhere(storage)) from None
    remember_round(opened)
    return opened


def _seen_elsewhere(storage: "Storage") -> str | None:
    """Returns where a round that is not valid here had the longest log that was seen."""
    from zoo.gym.rounds.protocol.manifest import round_id
    from zoo.gym.rounds.session.known_rounds import longest_log_address
    from zoo.gym.rounds.session.opening import stored_manifest

    with suppress(InputError, NotAvailableError):
        address = longest_log_address(round_id(stored_manifest(storage)))
        if address not in {None, storage.address}:
            return f"the longest log was seen at {address}: go on there, or copy that round here"
    return None


def round_base(opened: "Opened", given: str | None, *, yes: bool, offline: bool) -> "Resolved":
    """Returns the base of a round: the one given with --base, otherwise the round's own.

    Raises:
        GymError: see `resolve_base`.
    """
    from zoo.gym.rounds.contribution.write import check_base

    check = partial(check_base, manifest=opened.manifest)
    return resolve_base(
        given, opened.manifest.base.model, "--base", check, yes=yes, offline=offline
    )


def command(verb: str, opened: "Opened", more: str = "") -> str:
    """Returns a command of `zoo-gym round` about a round, which it names, as the user types it."""
    from zoo.gym.rounds.session.known_rounds import word_for

    return opened.manifest.command(verb, more, word=word_for(opened))


def known_key(given: str) -> "PublicKey":
    """Returns a key given as text, or by the name under which the user trusts it."""
    from zoo.gym.signing.public_key import parse_key
    from zoo.gym.signing.trusted import trusted_keys

    named = trusted_keys().get(given)
    return parse_key(given) if named is None else named


def known_keys(option: str, given: Sequence[str]) -> "tuple[PublicKey, ...]":
    """Returns the keys of an option, each given as to `known_key`.

    Raises:
        InputError: one is none, or given twice.
    """
    found = tuple(map(known_key, given))
    for key in found:
        if found.count(key) > 1:
            raise InputError(f"{option}: expected each key once, got {key.fingerprint} again")
    return found


def witness_keys(given: Sequence[str], own: "PublicKey") -> "tuple[PublicKey, ...]":
    """Returns the keys of `--witness`.

    Args:
        given: as to `known_keys`.
        own: the key that writes the log, which is no witness of itself.
    """
    found = known_keys("--witness", given)
    if own in found:
        raise InputError(
            f"--witness: expected another key than yours, which writes the log, got "
            f"{own.fingerprint}",
            hint="a witness is somebody else, who sees if the log is changed later",
        )
    return found


def new_storage(out: str, *, offline: bool) -> "Storage":
    """Returns the place of a new round: an address, or a folder that is empty or not there yet."""
    from zoo.gym.rounds.storage.base import is_address
    from zoo.gym.rounds.storage.folder import FolderStorage, open_storage

    if is_address(out):
        refuse_offline(out, offline=offline)
        return open_storage(out)
    folder = given_path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"--out: expected a new or empty folder, got {folder}")
    return FolderStorage(folder.resolve())


def refuse_offline(address: str, *, offline: bool) -> None:
    """Refuses an address of a network with `--offline`."""
    if offline:
        raise NotAvailableError(
            f"{address}: expected a folder with --offline, got an address of a network"
        )
