"""Who may still commit: newcomers take no seat of a key that the standings know.

Keys cost nothing, so a round that counted all commitments together would be full of new keys before
those came who worked in earlier rounds.
"""

from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rewards.standings import established, read_standings
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


def expect_room(state: State, key: PublicKey, known: frozenset[PublicKey]) -> None:
    """Refuses a commitment if as many newcomers, or as many others, have committed as may.

    Args:
        state: of the round.
        key: who commits.
        known: the keys that are no newcomers.

    Raises:
        InputError: there is no room for one more.
    """
    if state.manifest.newcomers is None:
        return  # the state counts all alike
    new = key not in known
    if sum((one not in known) is new for one in state.commits) >= state.manifest.most:
        who = "newcomers" if new else "contributors who are not new"
        raise InputError(f"commit: the round takes {state.manifest.most} {who} at most")
