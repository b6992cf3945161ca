"""Draws answers to tasks with a library in the prompt, and scores them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean

from zoo.backends.openai.reply import Reply
from zoo.backends.sampling import Sampling
from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.caller import TOO_LONG, Caller, Model
from zoo.gym.experience.calls.slot import Ask, Phase, Slot
from zoo.gym.experience.learning.ends import Ends
from zoo.gym.experience.learning.prompts import lessons_for, task_turns
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Reward, Sample, Score, Task


@dataclass(frozen=True)
class Answer:
    """One answer and its reward.

    Attributes:
        text: what the model wrote.
        score: its reward, which may be none.
        prompt_tokens: the tokens of the prompt as the server counts them; None if it does not.
    """

    text: str
    score: Score
    prompt_tokens: int | None = None


@dataclass
class Answers:
    """Draws answers of a model.

    Attributes:
        caller: makes the calls.
        model: the model that answers.
        reward: what scores answers; None in a replay, whose rewards are in the journal.
        system: text for all tasks.
        top_k: the most lessons in a prompt; None for all.
        unscored: answers without a reward so far.
        drawn: answers so far.
        tell: gets sentences about answers that are not whole.
    """

    caller: Caller
    model: Model
    reward: Reward | None
    system: str = ""
    top_k: int | None = None
    unscored: int = 0
    drawn: int = 0
    reason: str = ""
    tell: Callable[[str], object] = bool

    def __post_init__(self) -> None:
        self.ends = Ends(self.tell)

    def draw(
        self, tasks: Sequence[Task], slots: Sequence[Slot], library: Library, how: Sampling
    ) -> list[Answer]:
        """Returns an answer for each slot.

        Args:
            tasks: the task of each slot.
            slots: the places of the calls.
            library: the lessons in the prompt.
            how: how answers are drawn.

        Raises:
            GuardError: none of a step's groups has a reward.
            GymError: see `Caller.ask`.
        """
        asks = [
            Ask(slot, task_turns(task, lessons_for(task, library, self.top_k), self.system), how)
            for task, slot in zip(tasks, slots, strict=True)
        ]
        replies = self.caller.ask(self.model, asks)
        if slots:
            self.ends.add(slots[0].phase, replies, how.max_new_tokens)
        keys = [ask.key(self.model.name) for ask in asks]
        texts = [reply.text for reply in replies]
        scores = self._scores(keys, tasks, replies)
        counts = [reply.usage.prompt_tokens if reply.usage else None for reply in replies]
        found = list(map(Answer, texts, scores, counts))
        self._count(found, is_group=bool(slots) and slots[0].phase == "rollout")
        return found

    def _scores(
        self, keys: Sequence[str], tasks: Sequence[Task], replies: Sequence[Reply]
    ) -> list[Score]:
        journal = self.caller.journal
        never = {key: one for key, one in zip(keys, replies, strict=True) if one.finish == TOO_LONG}
        unheard = {key: one for key, one in never.items() if journal.score(key) is None}
        if unheard:
            journal.scored({key: Score(nan, one.reasoning) for key, one in unheard.items()})
        missing = [place for place, key in enumerate(keys) if journal.score(key) is None]
        if missing and self.reward is not None:
            made = self.reward.score([Sample(tasks[n], replies[n].text) for n in missing])
            journal.scored({keys[n]: score for n, score in zip(missing, made, strict=True)})
        found = [journal.score(key) for key in keys]
        if None in found:
            raise GuardError("the journal has an answer without its reward: it was cut")
        return [score for score in found if score is not None]

    def _count(self, found: Sequence[Answer], *, is_group: bool) -> None:
        failed = [answer for answer in found if answer.score.failed]
        self.drawn += len(found)
        self.unscored += len(failed)
        if failed:
            self.reason = failed[0].score.reason
        if is_group and len(failed) == len(found):
            raise GuardError(
                f"none of {len(found)} answers has a reward: {failed[0].score.reason}",
                hint="nothing can be learned; answers are kept: mend the reward, then resume",
            )


def slots(phase: Phase, step: int, look: int, places: Sequence[int], draws: int) -> list[Slot]:
    """Returns the slots of several answers to each task, the tasks in order."""
    return [Slot(phase, step, look, task, draw) for task in places for draw in range(draws)]


def mean_reward(answers: Sequence[Answer]) -> float | None:
    """Returns the mean of the rewards that there are, None without any."""
    found = [answer.score.value for answer in answers if not answer.score.failed]
    return fmean(found) if found else None


def chunked(answers: Sequence[Answer], size: int) -> list[Sequence[Answer]]:
    """Returns the answers of each task."""
    return [answers[start : start + size] for start in range(0, len(answers), size)]
