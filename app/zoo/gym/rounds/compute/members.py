"""What earlier rounds say of the contributors, and the cap on those of whom they say little."""

from collections.abc import Collection, Set
from dataclasses import dataclass, replace

from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.collect import Collected
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rewards.newcomers import capped_weights, drawn, seats_of
from zoo.gym.rounds.rewards.reputation import Reputation
from zoo.gym.rounds.rewards.standings import Standings, read_standings
from zoo.gym.rounds.rules.aggregate import Selection
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import read_chunk
from zoo.gym.signing import PublicKey


@dataclass(frozen=True)
class Members:
    """The contributors of a round, as those before it left them.

    Attributes:
        standings: of keys that took part before.
        newcomers: those on whom the cap is; None if it is on nobody, as all are new.
        left_out: newcomers who were not drawn.
    """

    standings: Standings
    newcomers: frozenset[PublicKey] | None = None
    left_out: tuple[PublicKey, ...] = ()

    @property
    def capped(self) -> Set[PublicKey]:
        """Those on whom the cap is."""
        return self.newcomers or frozenset()

    def reputation(self, key: PublicKey) -> Reputation:
        """Returns what is known of a key."""
        return self.standings.get(key, Reputation())


def members_of(state: State, storage: Storage, keys: Collection[PublicKey]) -> Members:
    """Returns who of some contributors gets a seat.

    Raises:
        NotAvailableError: the standings are missing.
        InputError: they are none, or the nonce of the lot was not shown yet.
    """
    terms = state.manifest.newcomers
    if terms is None:
        return Members({})
    standings = read_standings(read_chunk(storage, terms.standings))
    found = Members(standings)
    new = {key for key in keys if found.reputation(key).accepted < terms.rounds}
    if len(new) == len(keys):
        return found  # nobody could be preferred
    if state.nonce is None:
        raise InputError(
            f"round {state.manifest.name}: expected the nonce of the lot among newcomers, got none",
            hint="whoever writes the log shows it: zoo-gym round take",
        )
    seats = seats_of(len(keys) - len(new), terms.share)
    seated = set(
        drawn(
            new,
            len(new) if seats is None else seats,
            list(state.commits.values()),
            state.nonce,
        )
    )
    return Members(standings, frozenset(seated), tuple(sorted(new - seated)))


def with_seats(collected: Collected, members: Members, state: State) -> Collected:
    """Leaves out the newcomers who were not drawn."""
    terms = state.manifest.newcomers
    if terms is None or not members.left_out:
        return collected
    reason = (
        f"not drawn: keys with fewer than {terms.rounds} accepted rounds have {terms.share:.0%} of "
        "the seats"
    )
    return collected.without(dict.fromkeys(members.left_out, reason))


def with_cap(
    selection: Selection, keys: list[PublicKey], members: Members, share: float
) -> Selection:
    """Returns a selection in which newcomers have at most a share of the weight.

    Raises:
        InputError: nobody else has any.
    """
    import numpy as np

    if selection.weighing is None or not members.capped:
        return selection
    kept = [keys[row] for row in selection.kept]
    weights = dict(zip(kept, map(float, selection.weighing.weights), strict=True))
    capped = capped_weights(weights, members.capped & weights.keys(), share)
    if not any(capped.values()):
        raise InputError("weights: expected some of contributors who are not new, got none")
    values = np.array([float(capped[key]) for key in kept], np.float32)
    return replace(selection, weighing=replace(selection.weighing, weights=values))
