"""Draws tokens from logits, each row from a random stream of its own.

Legend: B rows in the batch, V vocabulary.
"""

from collections.abc import Sequence

import mlx.core as mx

from zoo.backends.base import Sampling


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

    def draw(self, logits_BV: mx.array) -> tuple[mx.array, mx.array]:
        """Samples a token for each row of the batch.

        Returns:
            The tokens `[B]`, and their log-probabilities `[B]`, both evaluated.
        """
        logprobs_BV = logits_BV - mx.logsumexp(logits_BV, -1, keepdims=True)
        scores_BV = logprobs_BV
        if self.sampling.temperature != 0:
            scores_BV = sampling_logits(logits_BV, self.sampling) + self._noise(logits_BV.shape[-1])
        chosen_B = mx.argmax(scores_BV, -1)
        taken_B = mx.take_along_axis(logprobs_BV, chosen_B[:, None], -1)[:, 0]
        mx.eval(chosen_B, taken_B)
        return chosen_B, taken_B

    def select(self, places: Sequence[int]) -> None:
        """Keeps the rows at these places of the batch."""
        self._rows = [self._rows[index] for index in places]

    def _noise(self, vocabulary: int) -> mx.array:
        """Returns the noise of the next token, `[B, V]`; it depends on each row's key alone."""
        rows: list[mx.array] = []
        for row in self._rows:
            now, self._streams[row] = mx.random.split(self._streams[row])
            rows.append(mx.random.gumbel((vocabulary,), key=now))
        return mx.stack(rows)


def sampling_logits(logits_BV: mx.array, sampling: Sampling) -> mx.array:
    """Returns the logits that tokens are sampled with, `[B, V]`; those left out are -inf.

    Temperature first, then top-k, then top-p (nucleus, arXiv:1904.09751).

    Args:
        logits_BV: the model's logits.
        sampling: settings with a temperature above 0.
    """
    outside = mx.array(-mx.inf)
    logits_BV = logits_BV / sampling.temperature
    if 0 < sampling.top_k < logits_BV.shape[-1]:
        least_B1 = mx.sort(logits_BV, -1)[:, -sampling.top_k][:, None]
        logits_BV = mx.where(logits_BV < least_B1, outside, logits_BV)
    if sampling.top_p < 1:
        order_BV = mx.argsort(-logits_BV, -1)
        probs_BV = mx.softmax(mx.take_along_axis(logits_BV, order_BV, -1), -1)
        beyond_BV = mx.cumsum(probs_BV, -1) - probs_BV >= sampling.top_p
        places_BV = mx.argsort(order_BV, -1)
        logits_BV = mx.where(mx.take_along_axis(beyond_BV, places_BV, -1), outside, logits_BV)
    return logits_BV
