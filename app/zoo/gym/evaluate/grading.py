"""Scores of answers: by the project's rewards, and of choices by their log-probabilities."""

import math
from collections.abc import Callable, Sequence
from typing import cast

from zoo.gym.config.reward_spec import parse_spec
from zoo.gym.evaluate.items import Grade, Item, Line
from zoo.gym.rewards import Sample, Score, load

_REWARDED_AT_ONCE = 64

_RANGES = {"length": (-1.0, 0.0)}
"""The ranges of rewards that are not from 0 to 1, by kind."""

_TIE = 1e-6
"""The relative difference up to which sums of log-probabilities tie: float32 has no finer ones."""


def by_reward(spec: object) -> Grade:
    """Returns a grade by a reward; see `zoo.gym.config.reward_spec` for its value.

    A score is a share of `range_of`, and cut to it.
    """
    low, high = range_of(spec)

    def share(score: Score) -> float:
        return (score.value - low) / (high - low)

    def grade(items: Sequence[Item], lines: Sequence[Line]) -> list[float]:
        with load(spec, [item.task for item in items]) as reward:
            samples = [
                Sample(item.task, text_of(line), cast("int | None", line.get("completion_tokens")))
                for item, line in zip(items, lines, strict=True)
            ]
            scores: list[Score] = []
            for start in range(0, len(samples), _REWARDED_AT_ONCE):
                scores += reward.score(samples[start : start + _REWARDED_AT_ONCE])
        return [_graded(line, share(score)) for line, score in zip(lines, scores, strict=True)]

    return grade


def range_of(spec: object) -> tuple[float, float]:
    """Returns the least and the largest score of a reward; functions count as from 0 to 1."""
    low = high = 0.0
    for part in parse_spec(spec):
        ends = [part.weight * end for end in _RANGES.get(part.kind, (0.0, 1.0))]
        low, high = low + min(ends), high + max(ends)
    return low, high


def by_text(is_right: Callable[[Item, str], bool]) -> Grade:
    """Returns a grade of each answer alone: 1 if it is right."""

    def grade(items: Sequence[Item], lines: Sequence[Line]) -> list[float]:
        pairs = zip(items, lines, strict=True)
        return [_graded(line, float(is_right(item, text_of(line)))) for item, line in pairs]

    return grade


def by_choice(items: Sequence[Item], lines: Sequence[Line]) -> list[float]:
    """Returns 1 for each item whose likeliest choice is right, of equal ones the share of right."""
    scores: list[float] = []
    for item, line in zip(items, lines, strict=True):
        best = likeliest(line)
        scores.append(sum(number in item.right for number in best) / max(1, len(best)))
    return scores


def likeliest(line: Line) -> list[int]:
    """Returns the numbers of the likeliest choices, several if their log-probabilities tie."""
    logprobs = cast("list[float]", line.get("logprobs") or [])
    top = max(logprobs, default=0.0)
    return [number for number, each in enumerate(logprobs) if top - each <= _TIE * abs(top)]


def by_mass(items: Sequence[Item], lines: Sequence[Line]) -> list[float]:
    """Returns the share of the probability of all choices that the right ones have (mc2)."""
    scores: list[float] = []
    for item, line in zip(items, lines, strict=True):
        logprobs = cast("list[float]", line.get("logprobs") or [])
        top = max(logprobs, default=0.0)
        masses = [math.exp(logprob - top) for logprob in logprobs]
        right = sum(mass for number, mass in enumerate(masses) if number in item.right)
        scores.append(right / sum(masses) if masses else 0.0)
    return scores


def by_loss(items: Sequence[Item], lines: Sequence[Line]) -> list[float]:
    """Returns nats per token: rows weigh as many as they have tokens, so the mean is the loss."""
    del items
    tokens = sum(cast("int", line["tokens"]) for line in lines)
    return [cast("float", line["nats"]) * len(lines) / tokens for line in lines]


def text_of(line: Line) -> str:
    """Returns the answer in a line; empty if there is none."""
    return str(line.get("answer", ""))


def _graded(line: Line, value: float) -> float:
    """Returns a score from 0 to 1; a question without an answer is not answered well."""
    if "error" in line:
        return 0.0
    return math.nan if math.isnan(value) else min(1.0, max(0.0, value))
