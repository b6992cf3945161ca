"""What changes an answer's logits before a token is drawn: bias, penalties, and a constraint.

The log-probability that is reported of a token is that of the model, before these.

Legend: V vocabulary.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.sampling import Sampling

Top: TypeAlias = tuple[tuple[int, float], ...]
"""The most likely tokens and their log-probabilities, the most likely one first."""


class BlockedError(Exception):
    """A constraint allows no token."""


class Constraint(Protocol):
    """What the text of one answer may be, such as a grammar that has read a part of it."""

    def allowed(self, size: int) -> "NDArray[np.bool_]":
        """Returns which tokens may come next, `[V]`; stop ids where the answer may end.

        Args:
            size: V.

        Raises:
            BlockedError: it cannot go on; the message says why.
        """
        ...

    def advance(self, token: int) -> None:
        """Appends a token that is allowed and no stop id."""
        ...


class Shaping:
    """The changes of one answer's logits, in this order: bias, penalties, constraint.

    A penalty is subtracted from tokens of the answer, not from those of the prompt: the presence
    penalty once, the frequency penalty as often as the token was drawn.

    Args:
        sampling: the settings.
    """

    def __init__(self, sampling: "Sampling") -> None:
        self._sampling = sampling
        self._drawn: Counter[int] = Counter()
        self._constraint = None if sampling.constraint is None else sampling.constraint()

    def shape(self, logits_V: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """Returns the logits of the next token as they are drawn from; the input is not changed.

        Raises:
            BlockedError: the constraint allows no token.
        """
        shaped_V, sampling = logits_V.copy(), self._sampling
        for token, bias in sampling.logit_bias:
            shaped_V[token] += bias
        if sampling.presence_penalty or sampling.frequency_penalty:
            for token, times in self._drawn.items():
                shaped_V[token] -= sampling.presence_penalty + times * sampling.frequency_penalty
        if self._constraint is not None:
            allowed_V = self._constraint.allowed(len(shaped_V))
            if not allowed_V.any():
                raise BlockedError("no token of the model continues the answer")
            shaped_V[~allowed_V] = -math.inf
        return shaped_V

    def add(self, token: int) -> None:
        """Appends the token that was drawn."""
        if token in self._sampling.stop_ids:
            return
        self._drawn[token] += 1
        if self._constraint is not None:
            self._constraint.advance(token)


def top_tokens(logprobs_V: "NDArray[np.float32]", count: int) -> Top:
    """Returns the `count` most likely tokens; of equal ones those with smaller ids."""
    import numpy as np

    count = min(count, len(logprobs_V))
    least = np.partition(logprobs_V, -count)[-count]
    likely = np.flatnonzero(logprobs_V >= least)
    order = likely[np.argsort(-logprobs_V[likely], kind="stable")][:count]
    return tuple((int(token), float(logprobs_V[token])) for token in order)
