"""The kinds of round, a file for each: how a kind's rounds differ from those of others.

In the log a kind is terms of the manifest (`kind`, `privacy`, `lessons`); the names are ours.
"""

from typing import TYPE_CHECKING, Any

from zoo.gym.rounds.kinds.kind import Kind
from zoo.gym.rounds.kinds.lessons import LessonsRound
from zoo.gym.rounds.kinds.private import PrivateRound
from zoo.gym.rounds.kinds.weights import WeightsRound

if TYPE_CHECKING:
    from zoo.gym.rounds.protocol.manifest import Manifest

KINDS: dict[str, Kind[Any, Any]] = {
    "weights": WeightsRound(),
    "private": PrivateRound(),
    "lessons": LessonsRound(),
}
"""Every kind by its name; a round is of the last one that fits its manifest."""


def kind_of(manifest: "Manifest") -> Kind[Any, Any]:
    """Returns the kind of a round."""
    return next(kind for kind in reversed(KINDS.values()) if kind.fits(manifest))


def label_of(on_the_wire: str) -> str:
    """Returns what a list of rounds says of those whose manifests have a `kind`."""
    return next((kind.label for kind in KINDS.values() if kind.on_the_wire == on_the_wire), "")
