"""Which prompts a step asks, by the rewards of earlier answers to them.

A group of answers with equal rewards has no gradient. All prompts are asked in turn, once an epoch;
one whose answers earned the same rests for three, and for twice as many, at most eight, when they
do so again. A step may draw more prompts until enough groups have a spread (arXiv:2503.14476,
section 3.2).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from zoo.gym.train.order import permutation

FIRST_REST, LONGEST_REST = 3, 8
"""In epochs: wrong answers may have become possible, and right ones been forgotten."""

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
        self._rests: dict[int, tuple[int, int]] = {}  # prompt: epochs of its rest, epoch of its end
        self.share = 1.0

    def draw(self, count: int) -> list[int]:
        """Returns the next prompts to ask."""
        drawn = list[int]()
        taken = set[int]()
        while len(drawn) < count:
            epoch, index = divmod(self._position, self._count)
            prompt = int(permutation(self._count, self._seed, epoch)[index])
            self._position += 1
            if len(taken) == self._count:
                taken = set()  # of few prompts some are asked twice
            if prompt not in taken and epoch >= self._rests.get(prompt, (0, 0))[1]:
                drawn.append(prompt)
                taken.add(prompt)
        return drawn

    def wanted(self, missing: int) -> int:
        """Returns how many prompts to ask so that about `missing` of them can be learned from."""
        return round(missing / max(self.share, 1 / MOST_DRAWN))

    def measured(self, prompts: Sequence[int], spread: Sequence[bool]) -> None:
        """Notes which of the asked prompts have answers with a spread of rewards."""
        epoch = max(0, self._position - 1) // self._count
        for prompt, is_mixed in zip(prompts, spread, strict=True):
            last, _ = self._rests.pop(prompt, (0, 0))
            if not is_mixed:
                rest = min(LONGEST_REST, 2 * last or FIRST_REST)
                self._rests[prompt] = rest, epoch + 1 + rest
        if prompts:
            self.share += (sum(spread) / len(prompts) - self.share) / 4

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint stores."""
        rests = [[prompt, *rest] for prompt, rest in self._rests.items()]
        return {"position": self._position, "rests": rests, "share": self.share}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned; earlier versions let no prompt rest."""
        self._position, self.share = int(state["position"]), float(state["share"])
        self._rests = {prompt: (rest, end) for prompt, rest, end in state.get("rests", ())}
