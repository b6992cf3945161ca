"""Searches each response with a regular expression, in a process that is killed when it hangs.

Some expressions take exponential time on some texts, and Python cannot interrupt them.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.gym.config.reward import RegexSettings
from zoo.gym.rewards.answers.either import Either
from zoo.gym.rewards.processes.workers import Workers
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward


class Regex(Configured[RegexSettings]):
    """Compares the group of the last match with the row's answer; without a group, 1 for a match.

    The whole response is searched, with its reasoning. The group is the one named `answer`, or the
    first.
    """

    def __init__(self, settings: RegexSettings) -> None:
        import re

        self.settings = settings
        self._compares = re.compile(settings.pattern).groups > 0
        argv = [sys.executable, "-P", "-m", "zoo.gym.rewards.answers.regex_child"]
        argv += [settings.pattern, str(settings.timeout_s)]
        self._workers = Workers(argv, timeout_s=settings.timeout_s)

    @property
    def description(self) -> str:
        """What it searches."""
        rule = "finds the row's answer" if self._compares else "matches"
        return f"1 if {self.settings.pattern} {rule}, else 0"

    def missing(self, task: Task) -> str | None:
        """Returns `no answer` for a row without one, if there is a group to compare with it."""
        return Either().missing(task) if self._compares else None

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns 1 or 0 for each sample; no reward where the search takes too long."""
        replies = self._workers.ask([{"text": sample.response} for sample in samples])
        return [self._one(sample, reply) for sample, reply in zip(samples, replies, strict=True)]

    def _one(self, sample: Sample, reply: Mapping[str, Any]) -> Score:
        if reason := reply.get("failed"):
            return no_reward(str(reason))
        matched = reply["found"]
        if matched is None:
            return Score(0.0, "no match")
        if not self._compares:
            return Score(1.0)
        return Either().score([Sample(sample.task, str(matched))])[0]

    def close(self) -> None:
        """Ends the process."""
        self._workers.close()
