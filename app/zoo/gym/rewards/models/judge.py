"""Has another model judge each response: its answer contains a score.

A judge's opinion is not evidence: it prefers long and confident responses, and its own.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from string import Template

from zoo.gym.config.reward import JudgeSettings
from zoo.gym.errors import InputError
from zoo.gym.rewards.answers.final import accepted_answers, without_reasoning
from zoo.gym.rewards.description import excerpt
from zoo.gym.rewards.reward import Configured, Sample, Score, no_reward
from zoo.gym.wiring import wired

_SCORE = re.compile(r"\bscore\b[*_ \t]*[:=][*_ \t]*([-+]?\d{1,9}(?:\.\d{1,9})?)", re.IGNORECASE)


class Judge(Configured[JudgeSettings]):
    """The score that the judge gives, from 0 for the lowest to 1 for the highest.

    A response without a readable score has no reward.

    Raises:
        InputError: the judge's folder or adapter cannot be used.
        NotAvailableError: no model of that name is on this machine.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self._stack = ExitStack()
        self._session = self._stack.enter_context(
            wired("chat of a judge")(
                settings.model,
                adapter=settings.adapter or None,
                max_new_tokens=settings.max_new_tokens,
                system="",
            )
        )

    @property
    def description(self) -> str:
        """Who judges, and how."""
        scale = f"{self.settings.lowest:g} to {self.settings.highest:g}"
        return f"the score from {scale} that {self.settings.model} gives, as 0 to 1"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the judge's score of each sample."""
        return [self._one(sample) for sample in samples]

    def _one(self, sample: Sample) -> Score:
        try:
            verdict = self._session.answer(self._prompt(sample))
        except InputError as error:  # longer than the judge can read
            return no_reward(error.message)
        return read_verdict(verdict, self.settings.lowest, self.settings.highest)

    def _prompt(self, sample: Sample) -> str:
        accepted = accepted_answers(sample.task.answer)
        return Template(self.settings.prompt).substitute(
            query=sample.task.query,
            response=without_reasoning(sample.response),
            answer=accepted[0] if accepted else sample.task.reference,
            lowest=f"{self.settings.lowest:g}",
            highest=f"{self.settings.highest:g}",
        )

    def close(self) -> None:
        """Frees the judge."""
        self._stack.close()


def read_verdict(verdict: str, lowest: float, highest: float) -> Score:
    """Returns the last `Score: number` of a verdict as 0 to 1, with the verdict as the reason."""
    scores = _SCORE.findall(without_reasoning(verdict))
    if not scores:
        return no_reward(f'the judge gave no score: "{excerpt(verdict)}"')
    score = float(scores[-1])
    if not lowest <= score <= highest:
        return no_reward(f"the judge gave {score:g}: expected {lowest:g} to {highest:g}")
    return Score((score - lowest) / (highest - lowest), excerpt(verdict, 500))
