"""Compares the final answer with the row's as mathematics, by math-verify.

Some answers take minutes or all memory to simplify, and math-verify's own time limit works in a
main thread alone: answers are compared in processes that are killed.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from zoo.backends.machine.installing import install_command
from zoo.gym.config.reward import MathSettings
from zoo.gym.errors import NotAvailableError
from zoo.gym.rewards.answers.final import (
    accepted_answers,
    answer_in_words,
    marked_answer,
    without_reasoning,
)
from zoo.gym.rewards.description import excerpt
from zoo.gym.rewards.processes.workers import Workers
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward

MOST_PROCESSES = 4

_MOST_CHARACTERS = 20_000
"""Characters at the end of a response that are searched for its answer."""


class Symbolic(Configured[MathSettings]):
    """1 if the final answer equals one that the row accepts, else 0.

    Raises:
        NotAvailableError: math-verify is not installed.
    """

    def __init__(self, settings: MathSettings) -> None:
        if find_spec("math_verify") is None:
            raise NotAvailableError(
                "reward: math needs the package math-verify, which is not installed",
                hint=install_command("eval"),
                code="rewards.missing_package",
            )
        self.settings = settings
        argv = [sys.executable, "-P", "-m", "zoo.gym.rewards.answers.symbolic_child"]
        self._workers = Workers(
            [*argv, str(settings.timeout_s)],
            timeout_s=settings.timeout_s,
            count=min(os.cpu_count() or 1, MOST_PROCESSES),
        )

    @property
    def description(self) -> str:
        """What it compares."""
        return "1 if the final answer equals the row's as mathematics, else 0"

    def missing(self, task: Task) -> str | None:
        """Returns `no answer` for a row without one."""
        return None if accepted_answers(task.answer) else "no answer"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns 1 or 0 for each sample; no reward if the row's own answer cannot be parsed."""
        replies = self._workers.ask([_request(sample) for sample in samples])
        return [_score(sample, reply) for sample, reply in zip(samples, replies, strict=True)]

    def close(self) -> None:
        """Ends the processes."""
        self._workers.close()


def _request(sample: Sample) -> dict[str, Any]:
    text = without_reasoning(sample.response)
    return {
        "accepted": accepted_answers(sample.task.answer),
        "answer": marked_answer(text),
        "statement": answer_in_words(text[-_MOST_CHARACTERS:]),
        "text": text[-_MOST_CHARACTERS:],
    }


def _score(sample: Sample, reply: Mapping[str, Any]) -> Score:
    accepted = accepted_answers(sample.task.answer)
    if not accepted:
        return no_reward("the row has no answer")
    if reply.get("unstarted"):
        return no_reward(f"math-verify cannot be used: {reply['failed']}")
    if failed := reply.get("failed"):  # too long or too large to compare: as good as wrong
        return Score(0.0, f"the answer cannot be compared: {failed}")
    if problem := reply.get("problem"):
        return no_reward(str(problem))
    if reply["equal"]:
        return Score(1.0)
    return Score(0.0, f'expected "{excerpt(accepted[0])}", got "{excerpt(str(reply["got"]))}"')
