"""Newcomers of a round: who may still commit, and the maker's nonce of the lot among them.

Keys cost nothing, so a round that counted all commitments together would be full of new keys before
those came who worked in earlier rounds: newcomers take no seat of a key that the standings know.
"""

import secrets
from contextlib import suppress
from pathlib import Path

from zoo.gym.errors import InputError
from zoo.gym.files import read_errors, read_small, write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.payouts.points import seats_of
from zoo.gym.rounds.payouts.reputation import Standings, established, read_standings
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.objects import nonce_commitment
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rules.method import BY_COLUMNS, AggregationMethod
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import read_chunk
from zoo.gym.signing import PublicKey


def established_of(manifest: Manifest, storage: Storage) -> frozenset[PublicKey]:
    """Returns the keys that are no newcomers; nobody in a round without a cap on newcomers.

    Raises:
        NotAvailableError: the standings are missing.
        InputError: they are none.
    """
    terms = manifest.newcomers
    if terms is None:
        return frozenset()
    return established(read_standings(read_chunk(storage, terms.standings)), terms.rounds)


def refuse_hopeless(manifest: Manifest, standings: Standings) -> None:
    """Refuses a new round that could only become void.

    Raises:
        InputError: nobody who may decide has a reputation, or the quorum needs more newcomers than
            have a seat.
    """
    terms = manifest.newcomers
    if terms is None:
        return
    regulars = established(standings, terms.rounds)
    deciding = regulars if regulars and terms.share < 1 else standings
    weighs = manifest.method == AggregationMethod.WEIGHTED_MEAN
    if weighs and not any(standings[key].value > 0 for key in deciding):
        raise InputError(
            "method: expected standings with a reputation above 0 for weighted_mean, got none "
            "among those who may decide",
            hint="start the round with another rule: --method mean",
            code="rounds.no_reputation",
        )
    seats = seats_of(len(regulars), terms.share)
    if not regulars or seats is None or manifest.method not in BY_COLUMNS:
        return
    if len(regulars) + seats < manifest.quorum:
        raise InputError(
            f"quorum: expected at most {len(regulars) + seats} under the rule {manifest.method}, "
            f"got {manifest.quorum}: the standings know {len(regulars)} keys that are not new, "
            f"beside which {seats} newcomers have a seat",
            hint="fewer --min-contributors, a larger --newcomers-share, or a rule with weights: "
            "--method mean",
            code="rounds.quorum_too_large",
        )


def expect_room(state: State, key: PublicKey, regulars: frozenset[PublicKey]) -> None:
    """Refuses a commitment if as many newcomers, or as many others, have committed as may.

    Raises:
        InputError: there is no room for one more.
    """
    if state.manifest.newcomers is None:
        return  # the state counts all alike
    new = key not in regulars
    alike = sum((contributor not in regulars) is new for contributor in state.commits)
    if alike >= state.manifest.most:
        who = "newcomers" if new else "contributors who are not new"
        raise InputError(
            f"commit: the round takes {state.manifest.most} {who} at most", code="rounds.round_full"
        )


def new_nonce() -> str:
    """Makes a nonce, which is kept on this machine until it is shown; returns the commitment to it.

    Raises:
        StorageError: it cannot be kept.
    """
    nonce = secrets.token_hex(32)
    path = _path(nonce_commitment(nonce))
    ensure_folder(path.parent)
    write_beside(path, nonce, sync=True)
    return path.name


def kept_nonce(commitment: str, void: str) -> str:
    """Returns the nonce of a commitment.

    Args:
        void: the command that makes the round void.

    Raises:
        InputError: it is not on this machine.
        StorageError: it cannot be read.
    """
    path = _path(commitment)
    with read_errors(path), suppress(FileNotFoundError):
        return read_small(path, most_bytes=100).decode()
    raise InputError(
        f"{path}: expected the nonce of the lot, got nothing",
        hint="it is on the machine where you ran zoo-gym round create; if it is lost, make the "
        f"round void: {void}",
        code="rounds.nonce_lost",
    )


def _path(commitment: str) -> Path:
    return folders().data / "rounds" / "lots" / commitment
