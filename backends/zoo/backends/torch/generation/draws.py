"""Draws tokens from logits, each row from a random stream of its own.

Legend: B rows in the batch, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.backends.base import Sampling


class Draws:
    """The random streams of a batch.

    Args:
        sampling: the settings.
        keys: the seed of each row's random stream.
    """

    def __init__(self, sampling: Sampling, keys: Sequence[int]) -> None:
        self.sampling = sampling
        self._rows = list(range(len(keys)))
        streams = [torch.Generator().manual_seed(key) for key in keys]
        drawn = (sampling.max_new_tokens,)
        uniforms = [
            torch.rand(drawn, generator=generator, dtype=torch.float64) for generator in streams
        ]
        self._uniforms = torch.stack(uniforms)
        self._place = 0

    def draw(self, logits_BV: Tensor) -> tuple[Tensor, Tensor]:
        """Samples a token for each row of the batch.

        Returns:
            The tokens `[B]`, and their log-probabilities `[B]`.
        """
        logprobs_BV = logits_BV.log_softmax(-1)
        if self.sampling.temperature == 0:
            chosen_B = logprobs_BV.argmax(-1)
        else:
            chosen_B = self._inverse_cdf(sampling_logprobs(logits_BV, self.sampling))
        self._place += 1
        return chosen_B, logprobs_BV.gather(-1, chosen_B[:, None])[:, 0]

    def select(self, places: Sequence[int]) -> None:
        """Keeps the rows at these places of the batch."""
        self._rows = [self._rows[index] for index in places]

    def _inverse_cdf(self, logprobs_BV: Tensor) -> Tensor:
        uniform_B1 = self._uniforms[self._rows, self._place][:, None]
        cumulative_BV = logprobs_BV.cpu().double().exp().cumsum(-1)
        chosen_B = torch.searchsorted(cumulative_BV, uniform_B1 * cumulative_BV[:, -1:])[:, 0]
        return chosen_B.to(logprobs_BV.device)


def sampling_logprobs(logits_BV: Tensor, sampling: Sampling) -> Tensor:
    """Returns the log-probabilities that tokens are sampled with, `[B, V]`.

    Temperature first, then top-k, then top-p (nucleus, arXiv:1904.09751).

    Args:
        logits_BV: the model's logits.
        sampling: settings with a temperature above 0.
    """
    logits_BV = logits_BV / sampling.temperature
    if 0 < sampling.top_k < logits_BV.shape[-1]:
        least_B1 = logits_BV.topk(sampling.top_k, -1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < least_B1, -torch.inf)
    if sampling.top_p < 1:
        ranked_BV, order_BV = logits_BV.sort(-1, descending=True)
        probs_BV = ranked_BV.softmax(-1)
        outside_BV = probs_BV.cumsum(-1) - probs_BV >= sampling.top_p
        logits_BV = logits_BV.masked_fill(
            torch.zeros_like(outside_BV).scatter(-1, order_BV, outside_BV), -torch.inf
        )
    return logits_BV.log_softmax(-1)
