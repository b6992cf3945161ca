"""Describes a sample with its score in one line, for logs and messages."""

from zoo.gym.humanize import figure
from zoo.gym.rewards.reward import Sample, Score
from zoo.gym.terminal import one_line

_SHOWN_CHARACTERS = 80


def describe(sample: Sample, score: Score) -> str:
    r"""Returns where a sample is from, its response, score and reason; safe to print.

    Example:
        >>> from zoo.gym.data.records import Message
        >>> from zoo.gym.rewards.reward import Task
        >>> task = Task((Message("user", "2 + 3 = ?"),), "5", source="sums.jsonl:1")
        >>> describe(Sample(task, "it is 6\n"), Score(0.0, "expected 5, got 6"))
        'sums.jsonl:1: "it is 6\\x0a": reward 0: expected 5, got 6'
    """
    where = f"{sample.task.source}: " if sample.task.source else ""
    value = "none" if score.failed else figure(score.value)
    reason = f": {excerpt(score.reason, 300)}" if score.reason else ""
    return f'{one_line(where)}"{excerpt(sample.response)}": reward {value}{reason}'


def excerpt(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    """Returns the start of a text on one line, control characters escaped."""
    return one_line(text if len(text) <= most else text[:most] + "...")
