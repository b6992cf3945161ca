"""What a chat has read before the turns: the system prompt with its lessons, once for many answers.

A prefix is the tokens that chats have in common whatever is asked. The model keeps the newest few
while it is loaded, so that lessons that come back are not read again; see `Answerer.read_prefix`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from zoo.gym.data import EncodeOptions, Message, Tokenizer, encode_prompt

if TYPE_CHECKING:
    from zoo.backends.answerer import Answerer
    from zoo.backends.sampling import Prefix

KEPT = 4
"""Prefixes that a loaded model keeps."""

LEAST_TOKENS = 32
"""Shorter prefixes are read again: they cost next to nothing."""

OTHER_QUESTION = "\u2026"
"""What no prompt begins with, so that the prefix ends where the question begins."""


@dataclass
class Prefixes:
    """The prefixes that a model has read.

    Attributes:
        policy: the model.
        tokenizer: its tokenizer.
        options: how prompts are encoded.
        read: the prefixes by their tokens, the newest last; None for those that it cannot share.
    """

    policy: "Answerer"
    tokenizer: Tokenizer
    options: EncodeOptions
    read: "dict[tuple[int, ...], Prefix | None]" = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]

    def of(
        self, chats: Sequence[Sequence[Message]], ids: Sequence[Sequence[int]]
    ) -> "Prefix | None":
        """Returns what the model has read of the tokens that all chats begin with.

        Args:
            chats: the turns of each.
            ids: their tokens.
        """
        first = chats[0][0]
        if first.role != "system":
            return None
        other = encode_prompt(
            [first, Message("user", OTHER_QUESTION)], self.tokenizer, self.options
        )
        columns = zip(other, *ids, strict=False)  # up to the end of the shortest
        same = takewhile(lambda column: len(set(column)) == 1, columns)
        shared = tuple(column[0] for column in same)
        if len(shared) < LEAST_TOKENS or len(shared) == min(map(len, ids)):
            return None
        prefix = self.read.pop(shared) if shared in self.read else self.policy.read_prefix(shared)
        self.read[shared] = prefix
        while len(self.read) > KEPT:
            del self.read[next(iter(self.read))]
        return prefix
