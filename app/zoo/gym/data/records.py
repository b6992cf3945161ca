"""What data is once it has been read: rows of chat, of prompt and completion, or of text.

Nothing here knows a tokenizer; `zoo.gym.data.encode` turns rows into tokens.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["chat", "completion", "text"]
"""How a row is learned: its assistant turns, its completion, or every token."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat.

    Attributes:
        role: `system`, `user` or `assistant`.
        content: what is said, without the reasoning.
        reasoning: what an assistant thought before it spoke; None where the data has none, the
            empty string where the data holds an empty think block.
        learned: False for an assistant turn that the data itself excludes (`weight: 0`).
    """

    role: str
    content: str
    reasoning: str | None = None
    learned: bool = True


@dataclass(frozen=True, slots=True)
class Record:
    """One usable row.

    Attributes:
        source: `file:line`.
        kind: which of the fields below hold the row.
        messages: the chat; for a completion, what was said before the prompt.
        prompt: what is read.
        completion: what is learned.
        text: plain text, learned whole.
        joint: what stands between prompt and completion for a model without a chat template.
    """

    source: str
    kind: Kind
    messages: tuple[Message, ...] = ()
    prompt: str = ""
    completion: str = ""
    text: str = ""
    joint: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A row that cannot be used.

    Attributes:
        where: `file:line`.
        reason: what is wrong: expected X, got Y.
    """

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Dataset:
    """All rows of the files, in order.

    Attributes:
        records: the usable rows.
        problems: the rows that were kept out.
        formats: file -> the format that was found in it.
        notes: a sentence for each file whose keys are not all read, or that is given twice.
    """

    records: tuple[Record, ...]
    problems: tuple[Problem, ...]
    formats: dict[str, str]
    notes: tuple[str, ...] = ()
