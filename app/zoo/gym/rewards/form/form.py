"""Checks that a response has the blocks that its prompt asks for (arXiv:2501.12948, 2.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zoo.gym.config.reward import FormatSettings
from zoo.gym.rewards.answers.final import boxed_answer, without_reasoning
from zoo.gym.rewards.reward import Configured, Sample, Score


@dataclass(frozen=True)
class Form(Configured[FormatSettings]):
    """1 if the response has the form, else 0.

    The opening tag of a think block may be missing: some chat templates write it in the prompt.
    """

    settings: FormatSettings = field(default_factory=FormatSettings)

    @property
    def description(self) -> str:
        """Which form it checks."""
        return f"1 if the response has the form '{self.settings.form}', else 0"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns 1 or 0 for each sample."""
        return [self._one(sample.response) for sample in samples]

    def _one(self, response: str) -> Score:
        fault = fault_of_form(response, self.settings.form)
        return Score(1.0) if fault is None else Score(0.0, fault)


def fault_of_form(response: str, form: str) -> str | None:
    """Returns what a response lacks for a form, or None."""
    if form == "boxed":
        boxed = boxed_answer(without_reasoning(response))
        return None if boxed else "expected an answer in \\boxed{} after the reasoning"
    rest = without_reasoning(response) if form == "answer" else response
    if form.startswith("think"):
        reasoning, closed, rest = response.partition("</think>")
        opened = reasoning.lstrip().removeprefix("<think>")
        if not closed or "<think>" in opened or "</think>" in rest or "<think>" in rest:
            return "expected one think block at the start"
        if not rest.strip():
            return "expected text after the think block"
    if form.endswith("answer"):
        _, opened, block = rest.partition("<answer>")
        inner, closed, ending = block.partition("</answer>")
        is_repeated = rest.count("<answer>") > 1 or rest.count("</answer>") > 1
        if not (opened and closed and inner.strip()) or ending.strip() or is_repeated:
            return "expected one answer block at the end"
    return None
