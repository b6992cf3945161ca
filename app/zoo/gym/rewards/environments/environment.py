"""Scores answers to tasks of reasoning-gym by the rules of each environment, in another process.

These rules compute with what the model wrote, so a process that can be killed applies them.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from zoo.gym.config.reward import EnvironmentSettings
from zoo.gym.rewards.answers.final import final_answer, marked_answer, without_reasoning
from zoo.gym.rewards.environments.package import FIELD, require_package
from zoo.gym.rewards.processes.workers import Workers
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward


class Environment(Configured[EnvironmentSettings]):
    """The score by the environment of each row, mostly from 0 to 1, often with partial credit.

    The final answer counts; where the task's answer has several lines, all of the response without
    its reasoning, unless it marks its answer.

    Raises:
        NotAvailableError: reasoning-gym is not installed.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        require_package()
        self.settings = settings
        argv = [sys.executable, "-P", "-m", "zoo.gym.rewards.environments.child"]
        self._workers = Workers([*argv, str(settings.timeout_s)], timeout_s=settings.timeout_s)

    @property
    def description(self) -> str:
        """Who scores."""
        return "the score by the environment of reasoning-gym that made the row"

    def missing(self, task: Task) -> str | None:
        """Returns `no environment` for a row that none made."""
        return None if of_task(task) else "no environment"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the score of each sample; no reward where the rules fail or take too long."""
        requests = [
            {"task": of_task(sample.task), "answer": stated_answer(sample)} for sample in samples
        ]
        return [_score_of(reply) for reply in self._workers.ask(requests)]

    def close(self) -> None:
        """Ends the processes."""
        self._workers.close()


def of_task(task: Task) -> dict[str, Any] | None:
    """Returns what an environment needs to score an answer to a task; None if none made it."""
    field = task.metadata.get(FIELD)
    if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
        return None
    return dict(cast("Mapping[str, Any]", field))


def stated_answer(sample: Sample) -> str:
    """Returns the answer that a response states."""
    if "\n" in str(sample.task.answer or ""):
        text = without_reasoning(sample.response)
        return marked_answer(text) or text
    return final_answer(sample.response)


def _score_of(reply: Mapping[str, Any]) -> Score:
    if reason := reply.get("failed", reply.get("refused")):
        return no_reward(str(reason))
    return Score(float(reply["value"]))
