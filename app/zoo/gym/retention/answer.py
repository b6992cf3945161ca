"""Greedy answers to single prompts, in the form in which the model was trained to answer.

A model that can think gets an empty think block first, as it does before an answer without
reasoning in training: its first tokens are then the answer's.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.data import (
    EncodeOptions,
    Message,
    Record,
    Tokenizer,
    chat_stops,
    encode_prompt,
    load_tokenizer,
)
from zoo.gym.data.own_tokenizer import with_own
from zoo.gym.data.rows import encode_row, make_encoder
from zoo.models.folder import model_positions, vocabulary_size

if TYPE_CHECKING:
    from zoo.backends.base import Policy, Rollout

BATCH_TOKENS = 4096
"""The most tokens of prompts and answers that are computed at once."""

DATE = "2024-07-26"
"""The date that a template may print: always the same, so that figures can be compared."""

LEAST_SHARING = 10
"""Prompts from which on it pays to read once what all begin with."""

_TWO_ANSWERS = ("7", "Yes")
"""Two answers whose first tokens differ: what rows with them have in common precedes an answer."""


class Asker:
    """Asks a model single questions; holds what its prompts are made of.

    Args:
        policy: the model.
        folder: its folder, with tokenizer and chat template.
        own: how its tokenizer differs from the folder's, see `own_tokenizer`.
    """

    def __init__(
        self, policy: "Policy", folder: Path, own: Mapping[str, object] | None = None
    ) -> None:
        self.policy = policy
        self.tokenizer: Tokenizer = with_own(load_tokenizer(folder), own or {})
        options = EncodeOptions(1 << 20, date=DATE, vocabulary=vocabulary_size(folder))
        self.options = options
        self._encoder = make_encoder(self.tokenizer, options)
        self.stop_ids = chat_stops(folder, self.tokenizer, options)
        self.positions = model_positions(folder)

    def prompt(self, text: str) -> list[int]:
        """Returns the tokens before an answer without reasoning."""
        return [*self._plain(text), *self._opening]

    def _plain(self, text: str) -> list[int]:
        return encode_prompt([Message("user", text)], self.tokenizer, self.options)

    @cached_property
    def _opening(self) -> list[int]:
        """What a template writes between any prompt and an answer, such as an empty think block."""
        if self._encoder.template is None:
            return []
        rows = [
            encode_row(self._encoder, Record("", "completion", prompt="Hi", completion=answer)).ids
            for answer in _TWO_ANSWERS
        ]
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(*rows, strict=False))
        common, plain = [left for left, _ in pairs], self._plain("Hi")
        return common[len(plain) :] if common[: len(plain)] == plain else []

    def fits(self, prompt: Sequence[int], max_new_tokens: int) -> bool:
        """Returns whether the model reads a prompt with an answer of that length."""
        return self.positions is None or len(prompt) + max_new_tokens <= self.positions

    def answers(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> "list[Rollout]":
        """Returns the greedy answer to each prompt; what all begin with is read once."""
        from zoo.backends.base import Sampling

        sampling = Sampling(max_new_tokens=max_new_tokens, stop_ids=self.stop_ids)
        columns = zip(*(ids[:-1] for ids in prompts), strict=False)
        same = [column[0] for column in takewhile(lambda ids: len(set(ids)) == 1, columns)]
        shares = same and len(prompts) >= LEAST_SHARING
        prefix = self.policy.read_prefix(same) if shares else None
        longest = max(map(len, prompts)) + max_new_tokens
        size = max(1, BATCH_TOKENS // longest)
        rollouts: list[Rollout] = []
        for start in range(0, len(prompts), size):
            rows = prompts[start : start + size]
            rollouts += self.policy.generate(rows, sampling, keys=range(len(rows)), prefix=prefix)
        return rollouts

    def text(self, rollout: "Rollout") -> str:
        """Returns an answer as text."""
        ids = [token for token in rollout.ids if token not in self.stop_ids]
        return self.tokenizer.decode(ids).strip()
