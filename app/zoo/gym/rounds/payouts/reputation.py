"""The reputation of contributors: a moving average of quality that falls faster than it rises.

r <- r + rate * (quality - r), with a rate of .1 upwards and .5 downwards, from 0; a failed
validation puts it to the floor, and each round without a contribution multiplies it by the decay.

Standings are the reputations of all keys, canonical JSON in a chunk. A manifest names those that
its round starts from, and its report those after it: so anybody can follow a reputation from round
to round.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from zoo.gym.errors import InputError
from zoo.gym.signing import PublicKey, canonical, parse_key

UP, DOWN = 0.1, 0.5
DECAY = 0.95
FLOOR = 0.0


@dataclass(frozen=True)
class Reputation:
    """The reputation of a contributor.

    Attributes:
        value: 0 to 1.
        accepted: rounds in which a contribution had a quality above 0, which without a gate is
            weight in the result.
    """

    value: float = 0.0
    accepted: int = 0

    def after(self, quality: float) -> "Reputation":
        """Returns the reputation after a round with a contribution of a quality from 0 to 1.

        Raises:
            InputError: the quality is outside of it.
        """
        if not 0 <= quality <= 1:
            raise InputError(
                f"quality: expected 0 to 1, got {quality}", code="rounds.quality_range"
            )
        rate = UP if quality > self.value else DOWN
        # Junk that a rule weighs with 0 must not make its key an established one.
        accepted = self.accepted + (quality > 0)
        return Reputation(self.value + rate * (quality - self.value), accepted)


FORMAT = "zoo-gym standings 1"

Standings = Mapping[PublicKey, Reputation]


def write_standings(standings: Standings) -> bytes:
    """Returns standings as they are stored."""
    members = [
        {"key": str(key), "reputation": reputation.value, "accepted": reputation.accepted}
        for key, reputation in sorted(standings.items())
    ]
    return canonical({"format": FORMAT, "members": members})


def read_standings(content: bytes) -> Standings:
    """Returns stored standings.

    Raises:
        InputError: they are none, or a reputation is not 0 to 1.
    """
    try:
        parsed = cast("dict[str, Any]", json.loads(content))
        members: list[dict[str, Any]] = parsed["members"]
        standings = {
            parse_key(member["key"]): Reputation(
                float(member["reputation"]), int(member["accepted"])
            )
            for member in members
        }
    except (ValueError, RecursionError, KeyError, TypeError, OverflowError):
        raise InputError(
            f"standings: expected JSON of format '{FORMAT}', got other bytes",
            code="rounds.bad_standings",
        ) from None
    for key, member in standings.items():
        if not 0 <= member.value <= 1:  # it weighs the contribution in weighted_mean
            raise InputError(
                f"standings: expected a reputation of 0 to 1 for {key.fingerprint}, got "
                f"{member.value}",
                code="rounds.bad_standings",
            )
        if member.accepted < 0:
            raise InputError(
                f"standings: expected accepted rounds, 0 or more, for {key.fingerprint}, got "
                f"{member.accepted}",
                code="rounds.bad_standings",
            )
    if write_standings(standings) != content:
        raise InputError(
            "standings: expected canonical JSON of theirs, got another form",
            code="rounds.bad_standings",
        )
    return standings


def established(standings: Standings, rounds: int) -> frozenset[PublicKey]:
    """Returns the keys that are no newcomers: of at least a number of accepted rounds."""
    return frozenset(key for key, reputation in standings.items() if reputation.accepted >= rounds)


def standings_after(
    standings: Standings,
    qualities: Mapping[PublicKey, float],
    *,
    refused: Sequence[PublicKey],
    unchanged: Sequence[PublicKey],
) -> Standings:
    """Returns the standings after a round.

    Args:
        qualities: 0 to 1, of each contribution that counts.
        refused: the contributors that failed a check.
        unchanged: the contributors that were not drawn.
    """
    updated: dict[PublicKey, Reputation] = {}
    failed, unseated = set(refused), set(unchanged)
    for key in {*standings, *qualities, *failed, *unseated}:
        reputation = standings.get(key, Reputation())
        if key in qualities:
            updated[key] = reputation.after(qualities[key])
        elif key in failed:
            updated[key] = replace(reputation, value=FLOOR)
        elif key in unseated:
            updated[key] = reputation
        else:
            updated[key] = replace(reputation, value=reputation.value * DECAY)
    return updated
