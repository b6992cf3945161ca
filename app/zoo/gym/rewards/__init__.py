"""Rewards: what scores the responses of a model, for every method that learns from scores.

`load(spec, tasks)` returns a `Reward` for the value of the setting `reward`; its `score` takes
`Sample`s, each a response to a `Task`, and returns a `Score` for each: a number, or NaN with the
reason why there is none.
"""

from zoo.gym.rewards.describe import describe
from zoo.gym.rewards.load import load
from zoo.gym.rewards.reward import Reward, Sample, Score, Task, no_reward

__all__ = ["Reward", "Sample", "Score", "Task", "describe", "load", "no_reward"]
