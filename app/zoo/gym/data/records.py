"""Parsed data: rows of chat, of prompt and completion, or of text.

Nothing here depends on a tokenizer; `zoo.gym.data.encode` turns rows into tokens.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["chat", "completion", "text", "pair", "rated", "prompt", "margin"]
"""What a row is: a chat, a prompt with its completion, a text, two answers to compare, one answer
that is rated, or a prompt that the model answers itself. `margin` is not a row of its own:
a method that reads it reads the `margin` of pairs."""

LEARNED: frozenset[Kind] = frozenset({"chat", "completion", "text"})
"""The kinds that are learned as they are: the assistant's turns, the completion, every token."""

ANSWERABLE: frozenset[Kind] = frozenset({"chat", "completion", "pair", "prompt"})
"""The kinds that have a prompt, with an answer beside it or without."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool by the assistant.

    Attributes:
        arguments: its arguments by name, as JSON values.
        id: what a tool turn refers to it by; empty if the data has none.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)
    id: str = ""


Tools = Sequence[Mapping[str, object]]
"""Definitions of tools in the form of OpenAI: `{"type": "function", "function": {"name": ...}}`."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        content: the text, without the reasoning; of a tool turn, what the tool returned.
        reasoning: the assistant's reasoning before the answer; None if the data has none, the
            empty string for an empty think block.
        learned: False for an assistant turn that the data itself excludes (`weight: 0`).
        calls: the tools that the assistant calls after its text.
        tool: the name of the tool that a tool turn is from; empty if the data has none.
        call_id: the id of the call that a tool turn answers; empty if the data has none.
    """

    role: str
    content: str
    reasoning: str | None = None
    learned: bool = True
    calls: tuple[Call, ...] = ()
    tool: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One usable row.

    Attributes:
        kind: which of the fields below are used.
        messages: the chat; for a completion, the turns before the prompt.
        prompt: the text that is only read.
        completion: the text that is learned.
        text: plain text, all of it learned.
        ends: of a text: whether it is the end of a document.
        joint: the text between prompt and completion for a model without a chat template.
        sides: of a pair: the better answer and the worse one, each with the same prompt as a row
            of its own. Of a rated answer: the answer as a row of its own.
        answer: of a prompt: what a reward compares with, as the file has it: text, a number, a
            list; None if the row has none. Its `completion` is an answer in prose, possibly empty.
        metadata: of a prompt: the other fields of the row, for rewards.
        good: whether a rated answer is a good one.
        margin: of a pair: by how much the better answer is better, 0 if the row does not say; None
            if it is not read.
        weight: of a pair or a rated answer: what its loss is multiplied by. That of a prompt is in
            its metadata.
        tools: the definitions of the tools that the assistant may call.
    """

    source: str
    kind: Kind
    messages: tuple[Message, ...] = ()
    prompt: str = ""
    completion: str = ""
    text: str = ""
    joint: str = ""
    sides: tuple["Record", ...] = ()
    answer: object = field(default=None, hash=False)  # may be a list
    metadata: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)
    good: bool | None = None
    margin: float | None = None
    tools: Tools = field(default=(), hash=False)
    ends: bool = False
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A row that cannot be used.

    Attributes:
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
        records: the usable rows; many of them are in a file, see `zoo.gym.data.record_file`.
        notes: a message for each file with keys that are not read, or that is given twice.
        held_out: how many rows at the end are of files that are held out.
    """

    records: Sequence[Record]
    problems: tuple[Problem, ...]
    formats: dict[str, str]
    notes: tuple[str, ...] = ()
    held_out: int = 0


_THINK_BLOCK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


def split_thinking(content: str) -> tuple[str | None, str]:
    """Returns the reasoning in a think block at the start of an answer, and the answer.

    The reasoning is without surrounding newlines; None if there is no block.
    """
    block = _THINK_BLOCK.match(content)
    if block is None:
        return None, content
    return block.group(1).strip("\n"), content[block.end() :]


def think_block(reasoning: str) -> str:
    """Returns reasoning as a block before an answer, in the form of Qwen3's template."""
    return f"<think>\n{reasoning}\n</think>\n\n"
