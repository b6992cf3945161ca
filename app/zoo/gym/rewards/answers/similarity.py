"""Measures how many words a response shares with a reference, in order: ROUGE-L (Lin, 2004).

It is a weak reward: a good response in other words scores low.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from zoo.gym.config.reward import SimilaritySettings
from zoo.gym.rewards.answers.final import accepted_answers, without_reasoning
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Similarity(Configured[SimilaritySettings]):
    """The F1 of the longest common subsequence of words with the reference output, 0 to 1.

    A row without a reference output is compared with its answer; with the nearest of several.
    """

    settings: SimilaritySettings = field(default_factory=SimilaritySettings)

    @property
    def description(self) -> str:
        """What it measures."""
        return "the words that the response shares with the reference, in order: ROUGE-L, 0 to 1"

    def missing(self, task: Task) -> str | None:
        """Returns what a row lacks that has no text to compare with."""
        none = "no answer" if self.settings.to == "answer" else "no reference output and no answer"
        return None if self._expected(task) else none

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the F1 of each sample."""
        return [_one(sample, self._expected(sample.task)) for sample in samples]

    def _expected(self, task: Task) -> tuple[str, ...]:
        if self.settings.to == "answer":
            return accepted_answers(task.answer)
        return (task.reference,) if task.reference.strip() else accepted_answers(task.answer)


def _one(sample: Sample, expected: tuple[str, ...]) -> Score:
    if not expected:
        return no_reward("the row has no text to compare with")
    text = words(without_reasoning(sample.response))
    return Score(max(f1(text, words(reference)) for reference in expected))


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case."""
    return [word.casefold() for word in _WORD.findall(text)]


def f1(response: Sequence[str], reference: Sequence[str]) -> float:
    """Returns the harmonic mean of the shares of both texts that are common to them.

    Example:
        >>> f1("the cat sat".split(), "the cat is here".split())  # 2 of 3 and 2 of 4
        0.5714285714285714
    """
    if not response or not reference:
        return 0.0
    return 2 * common_length(response, reference) / (len(response) + len(reference))


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Returns the length of the longest common subsequence.

    Computes a row of the table at a time, as bits of one number (Hyyrö, 2004): bit i is 0 where
    the row grows by one at word i of `first`.
    """
    places: dict[str, int] = {}
    for index, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << index
    every = (1 << len(first)) - 1
    row = every
    for word in second:
        matched = row & places.get(word, 0)
        row = ((row + matched) | (row - matched)) & every
    return len(first) - row.bit_count()
