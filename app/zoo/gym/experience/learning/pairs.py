"""Rewards of the same tasks in two arms, paired answer by answer, one difference a text.

If one answer of a pair has no reward, the pair is left out, so that lessons gain nothing by making
bad answers impossible to score. Equal texts are one task: they are no independent evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from zoo.gym.experience.learning.answers import Answer, chunked
from zoo.gym.experience.learning.split import same_text
from zoo.gym.rewards.reward import Task


@dataclass
class Pairs:
    """What two arms answered.

    Attributes:
        rewards: of each text, the rewards without and with the lessons, for each pair.
        unscored: answers without a reward, without and with the lessons.
    """

    rewards: dict[str, list[tuple[float, float]]] = field(
        default_factory=dict[str, list[tuple[float, float]]]
    )
    unscored: tuple[int, int] = (0, 0)

    def add(
        self, tasks: Sequence[Task], before: Sequence[Answer], after: Sequence[Answer], draws: int
    ) -> None:
        """Adds answers to tasks, `draws` to each and arm, in the order of the tasks."""
        arms = zip(tasks, chunked(before, draws), chunked(after, draws), strict=True)
        for task, old, new in arms:
            for a, b in zip(old, new, strict=True):
                first, second = self.unscored
                self.unscored = first + a.score.failed, second + b.score.failed
                if not a.score.failed and not b.score.failed:
                    found = self.rewards.setdefault(same_text(task), [])
                    found.append((a.score.value, b.score.value))

    @property
    def means(self) -> list[tuple[float, float]]:
        """The mean rewards of each text, without and with the lessons."""
        return [
            (fmean(a for a, _ in found), fmean(b for _, b in found))
            for found in self.rewards.values()
        ]

    @property
    def differences(self) -> list[float]:
        """The mean gain of each text."""
        return [after - before for before, after in self.means]
