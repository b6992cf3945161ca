"""Compares the final answer with the row's as text, after normalisation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from zoo.gym.config.reward import ExactSettings
from zoo.gym.rewards.answers.final import (
    accepted_answers,
    answer_in_words,
    final_answer,
    without_reasoning,
)
from zoo.gym.rewards.answers.notation import characters
from zoo.gym.rewards.description import excerpt
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward

_CHOICE = re.compile(r"\(?([a-z])\)", re.IGNORECASE)
_AROUND = " \t\n\"'`*$"
_STOPS = re.compile(r"^[.\s]+(?!\d)|[.\s]+$")
"""Full stops around a text; that of `.5` is a part of the number."""


@dataclass(frozen=True)
class Exact(Configured[ExactSettings]):
    """1 if the final answer is one that the row accepts, else 0."""

    settings: ExactSettings = field(default_factory=ExactSettings)

    @property
    def description(self) -> str:
        """What it compares."""
        part = "final answer" if self.settings.part == "answer" else "whole response"
        return f"1 if the {part} equals the row's answer, else 0"

    def missing(self, task: Task) -> str | None:
        """Returns `no answer` for a row without one."""
        return None if accepted_answers(task.answer) else "no answer"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns 1 or 0 for each sample."""
        return [self._one(sample) for sample in samples]

    def _one(self, sample: Sample) -> Score:
        accepted = accepted_answers(sample.task.answer)
        if not accepted:
            return no_reward("the row has no answer")
        response = without_reasoning(sample.response)
        is_whole = self.settings.part == "whole"
        text = response if is_whole else final_answer(sample.response)
        stated = () if is_whole else filter(None, map(answer_in_words, accepted))
        answers = {self._normal(form) for form in (*accepted, *stated)} - {""}
        if response in accepted or {self._normal(text), self._normal(response)} & answers:
            return Score(1.0)
        return Score(0.0, f'expected "{excerpt(accepted[0])}", got "{excerpt(text)}"')

    def _normal(self, text: str) -> str:
        return normalised(text, ignore_case=self.settings.ignore_case)


def normalised(text: str, *, ignore_case: bool = True) -> str:
    """Returns a text without what does not matter in an answer.

    These are the forms of one character (NFKC, but a power stays one), repeated spaces, quotes,
    asterisks, dollar signs and full stops around it, the brackets of a choice `(A)`, and by default
    the case.

    Example:
        >>> normalised('  **Paris**.'), normalised("(B)"), normalised("B)")
        ('paris', 'b', 'b')
    """
    plain = " ".join(characters(text).split())
    for _ in range(2):
        plain = _STOPS.sub("", plain.strip(_AROUND))
    choice = _CHOICE.fullmatch(plain)
    plain = choice[1] if choice else plain
    return plain.casefold() if ignore_case else plain
