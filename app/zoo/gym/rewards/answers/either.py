"""Compares each answer in the way that fits its row: as a number or as text."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zoo.gym.config.reward import AnswerSettings
from zoo.gym.rewards.answers.exact import Exact
from zoo.gym.rewards.answers.numeric import Numeric, has_number
from zoo.gym.rewards.reward import Configured, Sample, Score, Task


@dataclass(frozen=True)
class Either(Configured[AnswerSettings]):
    """`numeric` for a row whose answer is a number, `exact` for the others."""

    settings: AnswerSettings = field(default_factory=AnswerSettings)

    @property
    def description(self) -> str:
        """What it compares."""
        return "1 if the final answer is the row's, as a number or as text, else 0"

    def missing(self, task: Task) -> str | None:
        """Returns `no answer` for a row without one."""
        return Exact().missing(task)

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns 1 or 0 for each sample."""
        numeric, exact = Numeric(), Exact()
        return [
            (numeric if has_number(sample.task) else exact).score([sample])[0] for sample in samples
        ]
