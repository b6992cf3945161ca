"""The published names of deltas and rounds in one place; the objects are those of `zoo.gym`."""

from zoo.gym.config.bitdelta import BitDeltaConfig
from zoo.gym.config.deltaquant import DeltaQuantConfig, QuantMethod
from zoo.gym.published.quantizers import BitDeltaQuantizer, DeltaQuantizer
from zoo.gym.published.soup.config import DeltaSoupConfig
from zoo.gym.published.soup.contributors import ContributorProfile
from zoo.gym.published.soup.soup import DeltaSoup
from zoo.gym.rounds.rules.method import AggregationMethod

__all__ = [
    "AggregationMethod",
    "BitDeltaConfig",
    "BitDeltaQuantizer",
    "ContributorProfile",
    "DeltaQuantConfig",
    "DeltaQuantizer",
    "DeltaSoup",
    "DeltaSoupConfig",
    "QuantMethod",
]
