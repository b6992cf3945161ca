"""Which prompts a step asks, by the rewards of earlier answers to them.

A group of answers with equal rewards has no gradient. All prompts are asked in turn, once an epoch,
and those whose last answers had different rewards are asked again before their turn. A step draws
more of them until enough groups have a spread (arXiv:2503.14476, section 3.2).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from zoo.gym.train.order import permutation

AGAIN = 0.75
"""The most prompts of a draw that are asked again."""

REST = 4
"""A prompt is asked again before its turn once so many times as many others have been."""

MOST_DRAWN = 3
"""Prompts asked for each that is learned, at most."""


class PromptQueue:
    """The prompts of a run, in the order in which they are asked.

    Args:
        count: the number of prompts.
        seed: of the run.

    Attributes:
        share: an estimate of the share of asked prompts whose answers have a spread of rewards.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed = count, seed
        self._position = 0  # in the stream of all epochs
        self._mixed: dict[int, None] = {}  # in the order in which they were asked
        self.share = 1.0

    def draw(self, count: int) -> list[int]:
        """Returns the next prompts to ask."""
        again = min(int(AGAIN * count), len(self._mixed) // REST)
        drawn = list(self._mixed)[:again]
        for prompt in drawn:
            del self._mixed[prompt]
        taken = set(drawn)
        while len(drawn) < count:
            epoch, place = divmod(self._position, self._count)
            prompt = int(permutation(self._count, self._seed, epoch)[place])
            self._position += 1
            if len(taken) == self._count:
                taken = set()  # of few prompts some are asked twice
            if prompt not in taken:
                drawn.append(prompt)
                taken.add(prompt)
        return drawn

    def wanted(self, missing: int) -> int:
        """Returns how many prompts to ask so that about `missing` of them can be learned from."""
        return round(missing / max(self.share, 1 / MOST_DRAWN))

    def measured(self, prompts: Sequence[int], spread: Sequence[bool]) -> None:
        """Notes which of the asked prompts have answers with a spread of rewards."""
        for prompt, is_mixed in zip(prompts, spread, strict=True):
            self._mixed.pop(prompt, None)
            if is_mixed:
                self._mixed[prompt] = None
        if prompts:
            self.share += (sum(spread) / len(prompts) - self.share) / 4

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint stores."""
        return {"position": self._position, "mixed": list(self._mixed), "share": self.share}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self._position, self.share = int(state["position"]), float(state["share"])
        self._mixed = dict.fromkeys(int(prompt) for prompt in state["mixed"])
