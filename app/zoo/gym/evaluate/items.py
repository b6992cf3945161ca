"""What a measure asks: items with their task, and how all of them are asked and graded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from zoo.gym.humanize import counted
from zoo.gym.rewards.reward import Task

if TYPE_CHECKING:
    from zoo.gym.data.units import Example

Line: TypeAlias = Mapping[str, object]
"""What a model gave for an item, as it is stored: an answer, log-probabilities, or an error."""


@dataclass(frozen=True)
class Item:
    """One row.

    Attributes:
        row: its number in the file, from 1, or its place in a run's held-out rows.
        task: what is asked, and what an answer is compared with.
        plain: the text that a model without chat form continues; empty for the turns' contents.
        choices: answers whose log-probabilities are compared; empty if the model writes its own.
        right: the numbers of the right choices, from 0.
        example: what a loss is measured on.
    """

    row: int
    task: Task
    plain: str = ""
    choices: tuple[str, ...] = ()
    right: tuple[int, ...] = ()
    example: "Example | None" = None


Grade: TypeAlias = Callable[[Sequence[Item], Sequence[Line]], list[float]]
"""Returns the score of each answer, NaN for one that cannot be scored."""


@dataclass(frozen=True)
class Measure:
    """Items that are asked alike.

    Attributes:
        name: a task, such as `gsm8k`, or `held-out`.
        title: what a report calls it.
        items: the rows.
        how: the model writes an answer, chooses by log-probability, or has a loss.
        grade: scores answers.
        graded_by: how it does, in words.
        digest: identifies the data.
        shots: worked examples before each question.
        is_plain: whether prompts are text without a chat template.
        max_new_tokens: the most tokens of an answer.
        stops: texts that end an answer.
        notes: what the user should know about the rows.
        tokenizer: of a loss: the folder whose tokenizer encoded the examples.
        learners: the names of sources that may have learned the rows.
    """

    name: str
    title: str
    items: tuple[Item, ...]
    how: Literal["generate", "choices", "loss"]
    grade: Grade
    graded_by: str
    digest: str
    shots: int = 0
    is_plain: bool = False
    max_new_tokens: int = 256
    stops: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tokenizer: Path | None = None
    learners: tuple[str, ...] = ()

    @property
    def is_loss(self) -> bool:
        """Whether less is better, and figures are nats per token instead of shares."""
        return self.how == "loss"

    @property
    def asked(self) -> str:
        """How answers are got, in words."""
        shots = counted(self.shots, "shot")
        match self.how:
            case "generate":
                return f"{shots}, greedy, at most {self.max_new_tokens} tokens"
            case "choices":
                return f"{shots}, the choice of the highest log-likelihood"
            case "loss":
                return "nats per token of the answers"
