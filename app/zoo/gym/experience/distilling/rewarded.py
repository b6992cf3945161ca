"""Rewarded answers of a model on a server, as rows of supervised training.

A server shows no probabilities of the whole vocabulary, so its answers themselves are learned: to
each task those with the best reward of their group, if that is above 0, without the lessons.
"""

import json
from collections.abc import Sequence

from zoo.backends.sampling import Sampling
from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.caller import Caller, Model
from zoo.gym.experience.distilling.settings import DistillationConfig
from zoo.gym.experience.learning.answers import Answers, chunked, slots
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Reward, Task


def rewarded_rows(
    config: DistillationConfig,
    tasks: Sequence[Task],
    library: Library,
    caller: Caller,
    teacher: Model,
    reward: Reward,
) -> str:
    """Returns the rows: the task's own turns and an answer that was given with the lessons.

    Raises:
        GuardError: no answer has a reward above 0.
        GymError: see `Caller.ask`.
    """
    how = Sampling(config.max_new_tokens, config.temperature_train)
    drawn = [task for task in tasks for _ in range(config.group_size)]
    where = slots("rollout", 0, 0, range(len(tasks)), config.group_size)
    answers = Answers(caller, teacher, reward, tell=caller.notices.put).draw(
        drawn, where, library, how
    )
    lines: list[str] = []
    for task, group in zip(tasks, chunked(answers, config.group_size), strict=True):
        known = [one for one in group if not one.score.failed]
        best = max((one.score.value for one in known), default=0.0)
        texts = dict.fromkeys(one.text for one in known if one.score.value == best)
        turns = [{"role": turn.role, "content": turn.content} for turn in task.messages]
        for text in texts if best > 0 else ():
            row = {"messages": [*turns, {"role": "assistant", "content": text}]}
            lines.append(json.dumps(row) + "\n")
    if not lines:
        raise GuardError(
            f"expected an answer of {teacher.name} with a reward above 0, got none of {len(drawn)}"
        )
    return "".join(lines)
