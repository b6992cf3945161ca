"""The gate: keeps an edited library only if it is better on tasks that the teacher never sees.

Both libraries answer the same tasks, and differences are paired by task. There are three planned
looks, after a third, two thirds and all of the tasks; the first one that is clear ends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from zoo.backends.sampling import Sampling
from zoo.gym.experience.calls.slot import Phase
from zoo.gym.experience.learning.answers import Answer, Answers, chunked, slots
from zoo.gym.experience.learning.pairs import Pairs
from zoo.gym.experience.learning.signflip import LEVEL, sign_flip_p, tasks_needed
from zoo.gym.experience.learning.split import same_text
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Task

LOOKS = 3


@dataclass(frozen=True)
class Verdict:
    """What a gate found.

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
        how: how answers are drawn.
        steps: the gates that the run plans; the level is divided by it.
        version: how often the kept library has changed: its answers are drawn anew then.
        kept: the kept library's answers to each task so far.
    """

    answers: Answers
    tasks: Sequence[Task]
    draws: int
    how: Sampling
    steps: int
    version: int = 0
    kept: dict[int, Sequence[Answer]] = field(default_factory=dict[int, Sequence[Answer]])

    @property
    def level(self) -> float:
        """The level of one look: all looks of all steps together stay within 5 %."""
        return LEVEL / (self.steps * LOOKS)

    def compare(self, step: int, library: Library, edited: Library) -> Verdict:
        """Returns whether an edited library is better than the kept one."""
        pairs = Pairs()
        first = 0
        for look in range(LOOKS):
            last = len(self.tasks) * (look + 1) // LOOKS
            places = range(first, last)
            before = self._kept(places, library)
            after = self._draw("gate", step, look, places, edited)
            pairs.add([self.tasks[place] for place in places], before, after, self.draws)
            first = last
            left = {same_text(task) for task in self.tasks[last:]} - pairs.rewards.keys()
            verdict = self._verdict(pairs.differences, look, len(left))
            if verdict is not None:
                return verdict
        raise AssertionError("the last look decides")

    def accept(self) -> None:
        """Takes note that the kept library has changed."""
        self.version += 1
        self.kept.clear()

    def _verdict(self, differences: Sequence[float], look: int, left: int) -> Verdict | None:
        effect = fmean(differences) if differences else 0.0
        p = sign_flip_p(differences, self.level)
        is_last = look == LOOKS - 1
        facts = (round(effect, 6), p, len(differences), look + 1)
        if p <= self.level:
            return Verdict("accepted", *facts)
        is_worse = sign_flip_p([-one for one in differences], self.level) <= self.level
        if is_worse or (effect <= 0 and (is_last or self._is_lost(differences, left))):
            return Verdict("rejected", *facts)
        needed = tasks_needed(differences, self.level)
        return Verdict("not enough", *facts, needed) if is_last else None

    def _is_lost(self, differences: Sequence[float], left: int) -> bool:
        """Returns whether even gains as large as the largest difference would not be clear."""
        largest = max(map(abs, differences), default=0.0)
        best = [*differences, *[largest] * left]
        return largest > 0 and sign_flip_p(best, self.level) > self.level

    def _kept(self, places: Sequence[int], library: Library) -> list[Answer]:
        missing = [place for place in places if place not in self.kept]
        answers = self._draw("kept", self.version, 0, missing, library)
        self.kept.update(zip(missing, chunked(answers, self.draws), strict=True))
        return [answer for place in places for answer in self.kept[place]]

    def _draw(
        self, phase: Phase, step: int, look: int, places: Sequence[int], library: Library
    ) -> list[Answer]:
        if not places:
            return []
        drawn = [self.tasks[place] for place in places for _ in range(self.draws)]
        where = slots(phase, step, look, places, self.draws)
        return self.answers.draw(drawn, where, library, self.how)
