"""What is left of a model's right answers after training, in figures and in words."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from zoo.gym.humanize import figure
from zoo.gym.retention.measurement import LEAST_RIGHT, Measured
from zoo.gym.retention.questions import questions

__all__ = [
    "ALARM_SHARE",
    "LEAST_RIGHT",
    "LOST_KEYS",
    "Kept",
    "Lost",
    "compare",
    "lost_lines",
    "short",
]

ALARM_SHARE = 0.1
"""The share of right answers from which on their loss is an alarm."""

SHOWN_CHARACTERS = 60
SHOWN = 5
"""Lost answers that are shown."""

LOST_KEYS = ("question", "before", "after")
"""The fields of a lost answer in an event."""


@dataclass(frozen=True)
class Lost:
    """A question that was answered right before training, and no longer is."""

    question: str
    before: str
    after: str


@dataclass(frozen=True)
class Kept:
    """What is left of a model's right answers.

    Attributes:
        right: the right answers before.
        kept: how many of these questions are still answered right.
        gained: the questions that were answered wrong before and right now.
        loss_before: nats per token on plain text before.
        loss_after: the same afterwards.
        lost: the questions that are now answered wrong.
    """

    right: int
    kept: int
    gained: int
    loss_before: float
    loss_after: float
    lost: tuple[Lost, ...]

    @property
    def is_alarming(self) -> bool:
        """Whether more than a tenth of the right answers is lost."""
        return self.right - self.kept > ALARM_SHARE * self.right

    def figures(self) -> dict[str, Any]:
        """Returns the figures without the answers."""
        return {
            "right": self.right,
            "kept": self.kept,
            "gained": self.gained,
            "loss_before": self.loss_before,
            "loss_after": self.loss_after,
        }

    def content(self) -> dict[str, Any]:
        """Returns figures and lost answers."""
        return self.figures() | {"lost": [asdict(each) for each in self.lost]}

    def sentence(self) -> str:
        """Returns the figures in words.

        >>> Kept(43, 41, 1, 3.12, 3.19, ()).sentence()
        'kept 41 of 43 answers; loss on plain text 3.12 -> 3.19'
        """
        return sentence_of(self.figures())


def sentence_of(figures: object) -> str:
    """Returns `Kept.figures` in words; of a damaged event, what it has.

    >>> sentence_of({"right": 43, "kept": 41})
    'kept 41 of 43 answers; loss on plain text ? -> ?'
    """
    fields = cast("dict[str, Any]", figures) if isinstance(figures, dict) else {}
    losses = " -> ".join(figure(fields.get(key, "?")) for key in ("loss_before", "loss_after"))
    counts = f"{fields.get('kept', '?')} of {fields.get('right', '?')}"
    return f"kept {counts} answers; loss on plain text {losses}"


def lost_lines(lost: Sequence[Lost]) -> Iterator[str]:
    """Yields a line for each lost answer, of many only the first."""
    for each in lost[:SHOWN]:
        yield f"{each.question}  before {short(each.before)}, now {short(each.after)}"
    if (more := len(lost) - SHOWN) > 0:
        yield f"{more} more"


def compare(before: Measured, after: Measured) -> Kept | None:
    """Returns what is left, or None if the model had too few right answers before.

    Args:
        before: the model before training.
        after: the model afterwards.
    """
    if not before.answers_questions or before.text_loss is None or after.text_loss is None:
        return None
    asked = questions()
    lost = tuple(
        Lost(asked[place].question, before.answers[place], after.answers[place])
        for place, was_right in enumerate(before.right)
        if was_right and not after.right[place]
    )
    right = sum(before.right)
    kept = right - len(lost)
    gained = sum(after.right) - kept
    return Kept(right, kept, gained, before.text_loss, after.text_loss, lost)


def short(answer: str, most: int = SHOWN_CHARACTERS) -> str:
    """Returns the beginning of a text in quotes, on one line."""
    line = " ".join(answer.split())
    return repr(line if len(line) <= most else f"{line[: most - 1]}…")
