"""Compares the number that a response ends with to the row's number."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from zoo.gym.config.reward import NumericSettings
from zoo.gym.rewards.answers.final import (
    accepted_answers,
    answer_in_words,
    marked_answer,
    without_reasoning,
)
from zoo.gym.rewards.answers.last_number import last_number, only_number
from zoo.gym.rewards.answers.numbers import Number, parse_number
from zoo.gym.rewards.description import excerpt
from zoo.gym.rewards.reward import Configured, Sample, Score, Task, no_reward


@dataclass(frozen=True)
class Numeric(Configured[NumericSettings]):
    r"""1 if the last number of the final answer is the row's number, else 0.

    A number with a percent sign counts both as the fraction and as the number before the sign:
    `50%` equals 0.5 and 50. A number that is part of other mathematics, such as `\sqrt{2}`, is not
    read, and neither is an answer in a box or tags that states several.
    """

    settings: NumericSettings = field(default_factory=NumericSettings)

    @property
    def description(self) -> str:
        """What it compares."""
        margin = f", within {self.settings.tolerance:g}" if self.settings.tolerance else ""
        return f"1 if the last number of the answer is the row's number{margin}, else 0"

    def missing(self, task: Task) -> str | None:
        """Returns what prevents a comparison with the row's answer."""
        accepted = accepted_answers(task.answer)
        if not accepted:
            return "no answer"
        wrong = next((text for text in accepted if parse_number(text) is None), None)
        return None if wrong is None else f'the answer "{excerpt(wrong)}" is not a number'

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns 1 or 0 for each sample."""
        return [self._one(sample) for sample in samples]

    def _one(self, sample: Sample) -> Score:
        lack = self.missing(sample.task)
        if lack is not None:
            return no_reward(lack if lack.startswith("the") else f"the row has {lack}")
        text = without_reasoning(sample.response)
        marked = marked_answer(text)
        text = marked or answer_in_words(text) or text
        accepted = accepted_answers(sample.task.answer)
        got = only_number(text) if marked else last_number(text)
        if got is None:
            return Score(0.0, f'expected {accepted[0]}, got no number in "{excerpt(text)}"')
        numbers = [parse_number(text) for text in accepted]
        margin = Fraction(str(self.settings.tolerance))
        if any(number is not None and same_number(got, number, margin) for number in numbers):
            return Score(1.0)
        return Score(0.0, f"expected {excerpt(accepted[0])}, got {got.text}")


def has_number(task: Task) -> bool:
    """Returns whether every answer that a task accepts is a number."""
    accepted = accepted_answers(task.answer)
    return bool(accepted) and all(parse_number(text) is not None for text in accepted)


def same_number(number: Number, other: Number, tolerance: Fraction = Fraction(0)) -> bool:
    """Returns whether two numbers are equal.

    Args:
        number: a number.
        other: the number to compare with.
        tolerance: the largest difference, relative to `other`: none for an `other` of 0.
    """
    return any(
        abs(first - second) <= tolerance * abs(second)
        for first in number.values()
        for second in other.values()
    )
