"""The published names of deltas and rounds in one place; the objects are those of `zoo.gym`."""

from zoo.gym.absent import no_such_name
from zoo.gym.config.bitdelta import BitDeltaConfig
from zoo.gym.rounds.rules.method import AggregationMethod
from zoo.gym.rounds.soup.config import DeltaSoupConfig
from zoo.gym.rounds.soup.contributors import ContributorProfile
from zoo.gym.rounds.soup.soup import DeltaSoup

__all__ = [
    "AggregationMethod",
    "BitDeltaConfig",
    "ContributorProfile",
    "DeltaSoup",
    "DeltaSoupConfig",
]


def __getattr__(name: str) -> object:
    raise no_such_name(__name__, name)
