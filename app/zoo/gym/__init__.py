"""Train, personalise and share small language models on your own machine.

The public names are loaded on first use, so that importing this package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.core import __version__ as __version__
    from zoo.gym.api import RunResult as RunResult
    from zoo.gym.api import run_training as run_training
    from zoo.gym.config import TrainConfig as TrainConfig
    from zoo.gym.config.delta import DeltaConfig as DeltaConfig
    from zoo.gym.delta import apply_delta as apply_delta
    from zoo.gym.delta import check_delta as check_delta
    from zoo.gym.delta import create_delta as create_delta
    from zoo.gym.delta import load_delta as load_delta
    from zoo.gym.errors import GymError as GymError
    from zoo.models import resolve as resolve

_HOMES = {
    "DeltaConfig": "zoo.gym.config.delta",
    "GymError": "zoo.gym.errors",
    "RunResult": "zoo.gym.api",
    "TrainConfig": "zoo.gym.config",
    "__version__": "zoo.core",
    "apply_delta": "zoo.gym.delta",
    "check_delta": "zoo.gym.delta",
    "create_delta": "zoo.gym.delta",
    "load_delta": "zoo.gym.delta",
    "resolve": "zoo.models",
    "run_training": "zoo.gym.api",
}

__all__ = [
    "DeltaConfig",
    "GymError",
    "RunResult",
    "TrainConfig",
    "__version__",
    "apply_delta",
    "check_delta",
    "create_delta",
    "load_delta",
    "resolve",
    "run_training",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
