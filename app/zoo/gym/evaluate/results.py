"""What was measured: figures of one source and one measure, and how two sources differ."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from zoo.gym.evaluate.grading import by_choice, likeliest
from zoo.gym.evaluate.intervals import (
    Estimate,
    difference_of_losses,
    difference_of_scores,
    mean_of,
)
from zoo.gym.evaluate.items import Line, Measure


@dataclass(frozen=True)
class Result:
    """The figures of one source.

    Attributes:
        source: its name.
        measure: what it was measured on.
        lines: what it gave.
        scores: of each line, from 0 to 1, or nats; unscored ones are 0.
        form: chat template, system prompt and their like, in words.
        unscored: answers without a score.
    """

    source: str
    measure: Measure
    lines: Sequence[Line]
    scores: Sequence[float]
    form: str
    unscored: int

    @property
    def estimate(self) -> Estimate:
        """The figure with its interval."""
        return mean_of(self.scores)

    @property
    def counts(self) -> dict[str, int]:
        """Rows, and those that went wrong."""
        return {
            "rows": len(self.lines),
            "cut": sum(line.get("finish") == "length" for line in self.lines),
            "unanswered": sum("error" in line for line in self.lines),
            "empty": sum(line.get("answer") == "" for line in self.lines),
            "unscored": self.unscored,
            "tied": self._tied,
        }

    @property
    def _tied(self) -> int:
        """Rows with several likeliest choices; 0 where all choices count."""
        if self.measure.grade is not by_choice:
            return 0
        return sum(len(likeliest(line)) > 1 for line in self.lines)

    def as_json(self) -> dict[str, Any]:
        """Returns what is stored."""
        measure = self.measure
        return {
            "source": self.source,
            "task": measure.name,
            "title": measure.title,
            "value": self.estimate.value,
            "interval": _finite(self.estimate),
            "unit": "nats per token" if measure.is_loss else "share",
            **self.counts,
            "asked": measure.asked,
            "form": self.form,
            "graded_by": measure.graded_by,
            "shots": measure.shots,
            "digest": measure.digest,
        }


@dataclass(frozen=True)
class Comparison:
    """Two sources on the same rows.

    Attributes:
        first: the name of the source that is compared with.
        second: the other's.
        is_loss: whether figures are nats per token.
        difference: the second's figure less the first's.
        same: rows with the same answer.
        rows: all rows.
        learners: those of the two that may have learned the rows.
    """

    first: str
    second: str
    is_loss: bool
    difference: Estimate
    same: int
    rows: int
    learners: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Returns the difference in words: `better by 4.1 points, 95 % -0.6 to 8.8; not proven`."""
        estimate, unit, scale = self.difference, "points", 100.0
        if self.is_loss:  # a lower loss is better
            low, high = -estimate.high, -estimate.low
            estimate, unit, scale = Estimate(-estimate.value, low, high), "nats per token", 1.0
        digits = 3 if self.is_loss else 1
        value, low, high = (end * scale for end in (estimate.value, estimate.low, estimate.high))
        word = "better" if value > 0 else "worse" if value < 0 else "equal"
        if value < 0:
            value, low, high = -value, -high, -low
        by = "" if word == "equal" else f" by {value:.{digits}f} {unit}"
        names = " and ".join(self.learners)
        doubt = f", on rows that {names} may have learned" if names else ""
        if not math.isfinite(low):
            return f"{word}{by}; too few rows for an interval{doubt}"
        proof = "proven" if estimate.is_proven else "not proven"
        return f"{word}{by}, 95 % {low:.{digits}f} to {high:.{digits}f}; {proof}{doubt}"

    def as_json(self) -> dict[str, Any]:
        """Returns what is printed with `--json`."""
        estimate = self.difference
        return asdict(self) | {
            "difference": estimate.value,
            "interval": _finite(estimate),
            "sentence": self.sentence(),
        }


def result_of(source: str, measure: Measure, lines: Sequence[Line], form: str) -> Result:
    """Returns the figures of a source, with its answers graded."""
    scores = measure.grade(measure.items, lines)
    unscored = sum(map(math.isnan, scores))
    known = [0.0 if math.isnan(score) else score for score in scores]
    return Result(source, measure, lines, known, form, unscored)


def compare(first: Result, second: Result) -> Comparison:
    """Returns how the second source differs from the first."""
    is_loss = first.measure.is_loss
    difference = difference_of_losses if is_loss else difference_of_scores
    pairs = list(zip(first.lines, second.lines, strict=True))
    same = sum(_output_of(line) == _output_of(other) for line, other in pairs)
    estimate = difference(first.scores, second.scores)
    learners = first.measure.learners
    doubtful = tuple(name for name in (first.source, second.source) if name in learners)
    return Comparison(first.source, second.source, is_loss, estimate, same, len(pairs), doubtful)


def _finite(estimate: Estimate) -> list[float] | None:
    return [estimate.low, estimate.high] if math.isfinite(estimate.low) else None


def _output_of(line: Line) -> object:
    """Returns what a model gave, to be compared."""
    return line.get("answer", line.get("logprobs", line.get("nats", line.get("error"))))
