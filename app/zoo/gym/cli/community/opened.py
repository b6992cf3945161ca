"""Finds a round, and a key, by what a user writes."""

from typing import TYPE_CHECKING

from zoo.gym.cli.round_start import refuse_offline

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.signing import PublicKey


def opened_round(given: str | None, *, offline: bool = False) -> "Opened":
    """Opens a round by its folder, address, name or id, and keeps where it is."""
    from zoo.gym.rounds.life.opening import open_round
    from zoo.gym.rounds.life.places import find_storage, remember_place
    from zoo.gym.rounds.storage.address import is_address

    storage, expected = find_storage(given)
    if is_address(storage.address):
        refuse_offline(storage.address, offline=offline)
    opened = open_round(storage, expected=expected)
    remember_place(opened)
    return opened


def command(verb: str, opened: "Opened", more: str = "") -> str:
    """Returns a command of `zoo-gym round` about a round, which it names, as the user types it."""
    from zoo.gym.rounds.life.places import word_for

    option = "--round " if verb in {"contribute", "measure"} else ""
    return f"zoo-gym round {verb} {option}{word_for(opened)} {more}".rstrip()


def known_key(given: str) -> "PublicKey":
    """Returns a key given as text, or by the name under which the user trusts it."""
    from zoo.gym.signing.public_key import parse_key
    from zoo.gym.signing.trusted import trusted_keys

    named = trusted_keys().get(given)
    return parse_key(given) if named is None else named
