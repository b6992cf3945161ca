"""Draws answers to tasks with a library in the prompt, scores them, and pairs their rewards.

Answers that were cut, filtered or left empty are scored as they are, which is mostly 0. A run with
many of them learns nothing, so they are counted and reported.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import nan
from statistics import fmean

from zoo.backends.openai.reply import Reply
from zoo.backends.sampling import Sampling
from zoo.gym.errors import GuardError
from zoo.gym.experience.calls.caller import TOO_LONG, Caller, Model
from zoo.gym.experience.calls.journal import Ask, Phase, Slot
from zoo.gym.experience.learning.prompts import lessons_for, task_turns
from zoo.gym.experience.learning.split import same_text
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Reward, Sample, Score, Task

MANY = 0.1
"""The share of incomplete answers that is reported."""

_LEAST = 3
_MORE = "--max-new-tokens N allows more"
_ENDS = {
    "cut": f"cut at {{:,}} tokens: {_MORE}",
    "filtered": "held back by the server's filter (content_filter)",
    "empty": f"empty: if the model reasons first, {_MORE}",
}


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
        reward: what scores answers; None in a replay: the journal has the rewards.
        system: text for all tasks.
        top_k: the most lessons in a prompt; None for all.
        unscored: the number of answers without a reward.
        reason: why the latest of them has none.
    """

    caller: Caller
    model: Model
    reward: Reward | None
    system: str = ""
    top_k: int | None = None
    unscored: int = 0
    reason: str = ""

    def __post_init__(self) -> None:
        self.ends = Ends(self.caller.tell)

    def asks(
        self,
        slot: tuple[Phase, int, int],
        tasks: Mapping[int, Task],
        draws: int,
        library: Library,
        sampling: Sampling,
    ) -> list[Ask]:
        """Returns the calls that `draw` makes."""
        return [
            Ask(Slot(*slot, number, draw), turns, sampling)
            for number, task in tasks.items()
            for turns in [task_turns(task, lessons_for(task, library, self.top_k), self.system)]
            for draw in range(draws)
        ]

    def draw(
        self,
        slot: tuple[Phase, int, int],
        tasks: Mapping[int, Task],
        draws: int,
        library: Library,
        sampling: Sampling,
    ) -> list[list[Answer]]:
        """Returns `draws` answers to each task.

        `slot` is the phase, step and look of the calls; tasks have their number in the split.

        Raises:
            GuardError: none of a step's groups has a reward.
            GymError: see `Caller.ask`.
        """
        asks = self.asks(slot, tasks, draws, library, sampling)
        replies = self.caller.ask(self.model, asks)
        self.ends.add(slot[0], replies, sampling.max_new_tokens)
        answered = (task for task in tasks.values() for _ in range(draws))
        samples = [Sample(t, reply.text) for t, reply in zip(answered, replies, strict=True)]
        scores = self._scores([ask.key(self.model.name) for ask in asks], samples, replies)
        answers = [
            Answer(reply.text, score, reply.usage.prompt_tokens if reply.usage else None)
            for reply, score in zip(replies, scores, strict=True)
        ]
        reasons = [score.reason for score in scores if score.failed]
        self.unscored += len(reasons)
        if reasons:
            self.reason = reasons[0]
            if slot[0] == "rollout" and len(reasons) == len(answers):
                raise GuardError(
                    f"none of {len(answers)} answers has a reward: {self.reason}",
                    hint="nothing can be learned; answers are kept: fix the reward, then resume",
                    code="experience.no_rewards",
                )
        return [answers[start : start + draws] for start in range(0, len(answers), draws)]

    def _scores(
        self, keys: Sequence[str], samples: Sequence[Sample], replies: Sequence[Reply]
    ) -> list[Score]:
        journal = self.caller.journal
        unscored = [n for n, key in enumerate(keys) if key not in journal.scores]
        new = {
            keys[n]: Score(nan, replies[n].reasoning)
            for n in unscored
            if replies[n].finish == TOO_LONG
        }
        readable = [n for n in unscored if keys[n] not in new]
        if readable and self.reward is not None:
            rewards = self.reward.score([samples[n] for n in readable])
            new |= zip((keys[n] for n in readable), rewards, strict=True)
        if new:
            journal.scored(new)
        if not all(key in journal.scores for key in keys):
            raise GuardError(
                "the journal has an answer without its reward: it was cut",
                code="experience.cut_journal",
            )
        return [journal.scores[key] for key in keys]


def mean_reward(answers: Iterable[Answer]) -> float | None:
    """Returns the mean of the rewards, leaving out answers without one; None without any."""
    rewards = [answer.score.value for answer in answers if not answer.score.failed]
    return fmean(rewards) if rewards else None


class Pairs:
    """Rewards of the same tasks in two arms, paired answer by answer, one difference a text.

    A pair in which one answer has no reward is left out, so that lessons gain nothing by making bad
    answers impossible to score. Equal texts are one task: they are no independent evidence.

    Attributes:
        rewards: the pairs of rewards of each text, without and with the lessons.
        unscored: the number of answers without a reward, without and with the lessons.
        means: the mean rewards of each text, without and with the lessons.
        differences: the mean gain of each text.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        base: Sequence[Sequence[Answer]],
        learned: Sequence[Sequence[Answer]],
    ) -> None:
        self.rewards: dict[str, list[tuple[float, float]]] = {}
        for task, *arms in zip(tasks, base, learned, strict=True):
            for a, b in zip(*arms, strict=True):
                if not a.score.failed and not b.score.failed:
                    pair = (a.score.value, b.score.value)
                    self.rewards.setdefault(same_text(task), []).append(pair)
        first, second = (
            sum(answer.score.failed for answer in chain.from_iterable(arm))
            for arm in (base, learned)
        )
        self.unscored = first, second
        self.means = [
            (fmean(a for a, _ in pairs), fmean(b for _, b in pairs))
            for pairs in self.rewards.values()
        ]
        self.differences = [b - a for a, b in self.means]


def ended(reply: Reply) -> str | None:
    """Returns how an incomplete answer ended: `cut`, `filtered` or `empty`; None for others."""
    if reply.finish in ("content_filter", "length"):
        return "filtered" if reply.finish == "content_filter" else "cut"
    return None if reply.text.strip() or reply.finish == TOO_LONG else "empty"


def sentence(kind: str, max_new_tokens: int) -> str:
    """Returns what a user should know of incomplete answers, to follow their number."""
    return _ENDS[kind].format(max_new_tokens)


@dataclass
class Ends:
    """Counts the incomplete answers of a step, and reports them if there are many.

    Attributes:
        tell: gets a sentence, once for each kind and phase.
    """

    tell: Callable[[str], object]
    counts: Counter[str] = field(default_factory=Counter[str])
    reported: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def add(self, phase: str, replies: Sequence[Reply], max_new_tokens: int) -> None:
        """Counts answers that were drawn together."""
        counts = Counter(kind for reply in replies if (kind := ended(reply)) is not None)
        self.counts += counts
        for kind, count in counts.items():
            if count >= max(_LEAST, MANY * len(replies)) and (kind, phase) not in self.reported:
                self.reported.add((kind, phase))
                share = f"{count:,} of {len(replies):,} answers ({count / len(replies):.0%})"
                self.tell(f"{phase}: {share} are {sentence(kind, max_new_tokens)}")

    def take(self) -> dict[str, int]:
        """Returns the counts by kind and resets them."""
        counts = {kind: self.counts[kind] for kind in _ENDS}
        self.counts.clear()
        return counts
