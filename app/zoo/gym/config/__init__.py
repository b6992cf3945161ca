"""Settings: the single source of flags, YAML keys, the app's forms and the reference pages."""

from zoo.gym.config.load import (
    Ignored,
    Loaded,
    dump_config,
    extend_config,
    load_config,
    load_values,
)
from zoo.gym.config.train import TrainConfig

__all__ = [
    "Ignored",
    "Loaded",
    "TrainConfig",
    "dump_config",
    "extend_config",
    "load_config",
    "load_values",
]
