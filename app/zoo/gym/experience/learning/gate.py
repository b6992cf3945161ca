"""The gate: keeps an edited library only if it is better on tasks that the teacher never sees.

Both libraries answer the same tasks, and differences are paired by task. There are three planned
looks, after a third, two thirds and all of the tasks; the first clear one ends the comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from zoo.backends.sampling import Sampling
from zoo.gym.experience.calls.journal import Phase
from zoo.gym.experience.learning.answers import Answer, Answers, Pairs
from zoo.gym.experience.learning.signflip import LEVEL, sign_flip_p, tasks_needed
from zoo.gym.experience.learning.split import same_text
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Task

LOOKS = 3


@dataclass(frozen=True)
class Verdict:
    """The result of a gate.

    Attributes:
        verdict: `accepted`, `rejected`, or `not enough` for a gain that is not clear.
        effect: the mean difference of the rewards.
        p: the probability of such a gain without an effect.
        tasks: how many were compared.
        looks: how many looks it took.
        needed: how many tasks would show a gain of this size; None without a gain.
    """

    verdict: str
    effect: float
    p: float
    tasks: int
    looks: int
    needed: int | None = None


@dataclass
class Gate:
    """Compares libraries on the gate's tasks.

    Attributes:
        answers: draws answers of the model.
        tasks: the tasks, in the order of the looks.
        draws: answers to each task and library.
        sampling: how answers are drawn.
        steps: the number of gates that the run plans, which divides the level.
        version: how often the current library has changed: its answers are drawn anew then.
        current: the current library's answers to each task so far.
    """

    answers: Answers
    tasks: Sequence[Task]
    draws: int
    sampling: Sampling
    steps: int
    version: int = 0
    current: dict[int, list[Answer]] = field(default_factory=dict[int, list[Answer]])

    @property
    def level(self) -> float:
        """The level of one look: all looks of all steps together stay within 5 %."""
        return LEVEL / (self.steps * LOOKS)

    def compare(self, step: int, library: Library, edited: Library) -> Verdict:
        """Returns whether an edited library is better than the current one."""
        base: list[list[Answer]] = []
        learned: list[list[Answer]] = []
        for look in range(LOOKS):
            first, last = (len(self.tasks) * n // LOOKS for n in (look, look + 1))
            part = {n: self.tasks[n] for n in range(first, last)}
            base += self._current(part, library)
            learned += self._draw(("gate", step, look), part, edited)
            pairs = Pairs(self.tasks[:last], base, learned)
            left = {same_text(task) for task in self.tasks[last:]} - pairs.rewards.keys()
            verdict = self._verdict(pairs.differences, look, len(left))
            if verdict is not None:
                return verdict
        raise AssertionError("the last look decides")

    def accept(self) -> None:
        """Forgets the answers of the current library, which an edited one replaces."""
        self.version += 1
        self.current.clear()

    def _verdict(self, differences: Sequence[float], look: int, left: int) -> Verdict | None:
        effect = fmean(differences) if differences else 0.0
        p = sign_flip_p(differences, self.level)
        is_last = look == LOOKS - 1
        facts = (round(effect, 6), p, len(differences), look + 1)
        if p <= self.level:
            return Verdict("accepted", *facts)
        is_worse = sign_flip_p([-gain for gain in differences], self.level) <= self.level
        if is_worse or (effect <= 0 and (is_last or self._is_lost(differences, left))):
            return Verdict("rejected", *facts)
        needed = tasks_needed(differences, self.level)
        return Verdict("not enough", *facts, needed) if is_last else None

    def _is_lost(self, differences: Sequence[float], left: int) -> bool:
        """Returns whether even gains as large as the largest difference would not be clear."""
        largest = max(map(abs, differences), default=0.0)
        best = [*differences, *[largest] * left]
        return largest > 0 and sign_flip_p(best, self.level) > self.level

    def _current(self, tasks: Mapping[int, Task], library: Library) -> list[list[Answer]]:
        new = {n: task for n, task in tasks.items() if n not in self.current}
        drawn = self._draw(("kept", self.version, 0), new, library)
        self.current.update(zip(new, drawn, strict=True))
        return [self.current[n] for n in tasks]

    def _draw(
        self, slot: tuple[Phase, int, int], tasks: Mapping[int, Task], library: Library
    ) -> list[list[Answer]]:
        return self.answers.draw(slot, tasks, self.draws, library, self.sampling)
