"""Which contributors count by their earlier rounds, and the cap on newcomers."""

from collections.abc import Collection, Set
from dataclasses import dataclass, replace

from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.collect import Collected, NoResultError
from zoo.gym.rounds.compute.result import Report
from zoo.gym.rounds.payouts.points import capped_weights, drawn, seats_of
from zoo.gym.rounds.payouts.reputation import Standings, established, read_standings
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rules.aggregate import Selection
from zoo.gym.rounds.rules.method import BY_COLUMNS
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import read_chunk
from zoo.gym.signing import PublicKey


@dataclass(frozen=True)
class Members:
    """The contributors of a round and their earlier standings.

    Attributes:
        standings: of keys that took part before.
        newcomers: those on whom the cap is; None if it is on nobody, as all are new, those that the
            standings name among them.
        left_out: newcomers who were not drawn.
    """

    standings: Standings
    newcomers: frozenset[PublicKey] | None = None
    left_out: tuple[PublicKey, ...] = ()

    @property
    def capped(self) -> Set[PublicKey]:
        """Those on whom the cap is."""
        return self.newcomers or frozenset()


def members_of(state: State, storage: Storage, keys: Collection[PublicKey]) -> Members:
    """Returns who of some contributors gets a seat.

    Raises:
        NotAvailableError: the standings are missing.
        NoResultError: only newcomers are left of whom others are known.
        InputError: they are none, or the nonce of the lot was not shown yet.
    """
    terms = state.manifest.newcomers
    if terms is None:
        return Members({})
    standings = read_standings(read_chunk(storage, terms.standings))
    members = Members(standings)
    regulars = established(standings, terms.rounds)
    if not regulars:
        return members  # nobody could be preferred
    new = set(keys) - regulars
    if keys and len(new) == len(keys):
        missing = "a contribution of somebody who is not new, as the standings know some, got none"
        reason = "nobody contributes whom the standings know"
        raise NoResultError(state.manifest, f"expected {missing}", reason, {})
    if state.nonce is None:
        raise InputError(
            f"round {state.manifest.name}: expected the nonce of the lot among newcomers, got none",
            hint=f"whoever writes the log shows it: {state.manifest.command('sync')}",
            code="rounds.nonce_missing",
        )
    seats = _seats(state.manifest, len(keys) - len(new))
    seated = set(drawn(new, seats, list(state.commits.values()), state.nonce))
    return Members(standings, frozenset(seated), tuple(sorted(new - seated)))


def _seats(manifest: Manifest, regulars: int) -> int:
    """Returns how many newcomers may count beside those who are known.

    Where a rule has weights, which are capped by themselves, they fill up the quorum: or few known
    contributors would make a round void that has enough of all.
    """
    assert manifest.newcomers is not None, "only rounds with a cap come here"
    seats = seats_of(regulars, manifest.newcomers.share)
    room = max(0, manifest.most - regulars)
    least = 0 if manifest.method in BY_COLUMNS else manifest.quorum - regulars
    return room if seats is None else max(min(seats, room), least)


def fill_quorum(report: Report, manifest: Manifest) -> bool:
    """Returns whether newcomers have more seats than their share, as the quorum needs them."""
    if manifest.newcomers is None or report.newcomers is None:
        return False
    seats = seats_of(len(report.contributions) - len(report.newcomers), manifest.newcomers.share)
    return seats is not None and len(report.newcomers) > seats


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
    selection: Selection, collected: Collected, members: Members, manifest: Manifest
) -> Selection:
    """Returns a selection in which newcomers have at most a share of the weight.

    Raises:
        NoResultError: nobody else has any.
    """
    import numpy as np

    terms = manifest.newcomers
    if terms is None or selection.weighing is None or not members.capped:
        return selection
    keys = [collected.keys[row] for row in selection.kept]
    weights = dict(zip(keys, map(float, selection.weighing.weights), strict=True))
    capped = capped_weights(weights, members.capped & weights.keys(), terms.share)
    if not any(capped.values()):
        message = "expected weights of contributors who are not new, got none"
        raise NoResultError(manifest, message, "only newcomers have weight", collected.refused)
    values = np.array([float(capped[key]) for key in keys], np.float32)
    return replace(selection, weighing=replace(selection.weighing, weights=values))
