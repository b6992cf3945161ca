"""Draws tokens from logits, each row from a random stream of its own.

Legend: B rows in the batch, V vocabulary.
"""

from collections.abc import Sequence
from math import log

import mlx.core as mx
import numpy as np

from zoo.backends.base import Sampling
from zoo.backends.sampling import LEAST_TOP_P
from zoo.backends.shaping import Shaping, Top, top_tokens


class Draws:
    """The random streams of a batch.

    A token is the largest of its log-probability and Gumbel noise (arXiv:1611.00712), which draws
    from the distribution without a sum over the vocabulary.

    Args:
        sampling: the settings.
        keys: the seed of each row's random stream.
    """

    def __init__(self, sampling: Sampling, keys: Sequence[int]) -> None:
        self.sampling = sampling
        self._rows = list(range(len(keys)))
        self._streams = [mx.random.key(key % (1 << 64)) for key in keys]
        self._shapings = [Shaping(sampling) for _ in keys] if sampling.shapes_logits else []

    def draw(self, logits_BV: mx.array) -> tuple[mx.array, mx.array, list[Top]]:
        """Samples a token for each row of the batch.

        Returns:
            The tokens `[B]` and their log-probabilities `[B]`, both evaluated, and the most likely
            tokens in their places, empty if none are reported.

        Raises:
            BlockedError: the constraint of a row allows no token.
        """
        logprobs_BV = logits_BV - mx.logsumexp(logits_BV, -1, keepdims=True)
        scores_BV = logprobs_BV
        if self._shapings:
            scores_BV = logits_BV = self._shaped(logits_BV)
        if self.sampling.temperature != 0:
            scores_BV = sampling_logits(logits_BV, self.sampling) + self._noise(logits_BV.shape[-1])
        chosen_B = mx.argmax(scores_BV, -1)
        taken_B = mx.take_along_axis(logprobs_BV, chosen_B[:, None], -1)[:, 0]
        mx.eval(chosen_B, taken_B)
        for row, token in zip(
            self._rows, chosen_B.tolist() if self._shapings else (), strict=False
        ):
            self._shapings[row].add(token)
        return chosen_B, taken_B, self._tops(logprobs_BV)

    def select(self, places: Sequence[int]) -> None:
        """Keeps the rows at these places of the batch."""
        self._rows = [self._rows[index] for index in places]

    def _shaped(self, logits_BV: mx.array) -> mx.array:
        rows = zip(self._rows, np.array(logits_BV.astype(mx.float32)), strict=True)
        return mx.array(np.stack([self._shapings[row].shape(logits_V) for row, logits_V in rows]))

    def _tops(self, logprobs_BV: mx.array) -> list[Top]:
        count = self.sampling.top_logprobs
        rows = np.array(logprobs_BV.astype(mx.float32)) if count else ()
        return [top_tokens(logprobs_V, count) for logprobs_V in rows]

    def _noise(self, vocabulary: int) -> mx.array:
        """Returns the noise of the next token, `[B, V]`; it depends on each row's key alone."""
        rows: list[mx.array] = []
        for row in self._rows:
            now, self._streams[row] = mx.random.split(self._streams[row])
            rows.append(mx.random.gumbel((vocabulary,), key=now))
        return mx.stack(rows)


def sampling_logits(logits_BV: mx.array, sampling: Sampling) -> mx.array:
    """Returns the logits that tokens are sampled with, `[B, V]`; those left out are -inf.

    Temperature first, then min-p (arXiv:2407.01082), then top-k, then top-p (nucleus,
    arXiv:1904.09751).

    Args:
        logits_BV: the model's logits.
        sampling: settings with a temperature above 0.
    """
    outside = mx.array(-mx.inf)
    logits_BV = logits_BV / sampling.temperature
    if sampling.min_p:
        least_B1 = mx.max(logits_BV, -1, keepdims=True) + log(sampling.min_p)
        logits_BV = mx.where(logits_BV < least_B1, outside, logits_BV)
    if 0 < sampling.top_k < logits_BV.shape[-1]:
        least_B1 = mx.sort(logits_BV, -1)[:, -sampling.top_k][:, None]
        logits_BV = mx.where(logits_BV < least_B1, outside, logits_BV)
    if sampling.top_p < 1:
        order_BV = mx.argsort(-logits_BV, -1)
        probs_BV = mx.softmax(mx.take_along_axis(logits_BV, order_BV, -1), -1)
        top_p = max(sampling.top_p, LEAST_TOP_P)
        beyond_BV = mx.cumsum(probs_BV, -1) - probs_BV >= top_p
        places_BV = mx.argsort(order_BV, -1)
        logits_BV = mx.where(mx.take_along_axis(beyond_BV, places_BV, -1), outside, logits_BV)
    return logits_BV
