"""Measures what a distilled model gained on held-out tasks, by the statistics of the test.

Four ways of answering the same tasks, paired by task: the model alone, with the lessons in its
prompt, with the adapter, and with the delta made of it. One planned comparison each, against the
model alone.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from zoo.backends.sampling import Sampling
from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.distilling.settings import DistillationConfig
from zoo.gym.experience.learning.answers import Answer, Answers, slots
from zoo.gym.experience.learning.learn import Tested, compared
from zoo.gym.experience.learning.pairs import Pairs
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.local import BATCH, LocalChat
from zoo.gym.rewards.reward import Reward, Task

WAYS = ("bare", "library", "adapter", "delta")


def compare(
    config: DistillationConfig,
    tasks: Sequence[Task],
    library: Library,
    caller: Caller,
    reward: Reward,
    adapter: Path,
    delta: Path,
) -> dict[str, Tested]:
    """Returns what the lessons, the adapter and the delta gain on tasks, by name.

    Args:
        config: the model and how it answers.
        tasks: the held-out tasks.
        library: the lessons.
        caller: makes the calls; what is in its journal is not drawn again.
        reward: what scores answers.
        adapter: the result of the training.
        delta: the delta made of it.

    Raises:
        GuardError: no task has rewards in both ways.
        GymError: see `open_chat`.
    """
    bare = _answers(config, tasks, Library(), caller, reward, "bare")
    found: dict[str, Tested] = {}
    for way in WAYS[1:]:
        lessons = library if way == "library" else Library()
        weights = {"adapter": adapter, "delta": delta}.get(way)
        other = _answers(config, tasks, lessons, caller, reward, way, weights)
        pairs = Pairs()
        pairs.add(tasks, bare, other, config.test_draws)
        if not pairs.rewards:
            raise GuardError(f"{way}: expected rewards for both, got none: {bare[0].score.reason}")
        found[way] = compared(pairs.means, 0, pairs.unscored)
    return found


def _answers(
    config: DistillationConfig,
    tasks: Sequence[Task],
    lessons: Library,
    caller: Caller,
    reward: Reward,
    way: str,
    weights: Path | None = None,
) -> list[Answer]:
    """Returns the answers in one way, `test_draws` to each task."""
    from zoo.gym.chat import open_chat

    drawn = [task for task in tasks for _ in range(config.test_draws)]
    where = slots("test", 0, WAYS.index(way), range(len(tasks)), config.test_draws)
    how = Sampling(config.max_new_tokens, config.temperature_eval)
    adapter, delta = (weights if way == kind else None for kind in ("adapter", "delta"))
    with open_chat(config.model, system="", adapter=adapter, delta=delta) as session:
        model = Model(f"{config.model} ({way})", LocalChat(session), None, BATCH)
        return Answers(caller, model, reward, tell=caller.notices.put).draw(
            drawn, where, lessons, how
        )


def as_json(tested: Tested) -> dict[str, object]:
    """Returns what a comparison found, with no interval where there are too few tasks."""
    fields: dict[str, object] = asdict(tested)
    low, high = tested.interval
    del fields["interval"]
    del fields["tokens"]
    return fields | {"interval": [low, high] if math.isfinite(low) else None}
