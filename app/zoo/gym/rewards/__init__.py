"""Rewards: what scores the responses of a model, for every method that learns from scores.

`load(spec, tasks)` returns a `Reward` for the value of the setting `reward`; its `score` takes
`Sample`s, each a response to a `Task`, and returns a `Score` for each: a number, or NaN with the
reason why there is none.

The names are loaded on first use: the child processes of rewards import little.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.gym.rewards.description import describe as describe
    from zoo.gym.rewards.loading import check as check
    from zoo.gym.rewards.loading import load as load
    from zoo.gym.rewards.reward import Reward as Reward
    from zoo.gym.rewards.reward import Sample as Sample
    from zoo.gym.rewards.reward import Score as Score
    from zoo.gym.rewards.reward import Task as Task
    from zoo.gym.rewards.reward import no_reward as no_reward

_HOMES = {
    "Reward": "reward",
    "Sample": "reward",
    "Score": "reward",
    "Task": "reward",
    "check": "loading",
    "describe": "description",
    "load": "loading",
    "no_reward": "reward",
}

__all__ = ["Reward", "Sample", "Score", "Task", "check", "describe", "load", "no_reward"]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
