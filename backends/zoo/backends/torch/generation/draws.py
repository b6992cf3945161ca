"""Draws tokens from logits, each row from a random stream of its own.

Legend: B rows in the batch, V vocabulary.
"""

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor

from zoo.backends.base import Sampling
from zoo.backends.sampling import LEAST_TOP_P
from zoo.backends.shaping import Shaping, Top, top_tokens


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
        self._shapings = [Shaping(sampling) for _ in keys] if sampling.shapes_logits else []

    def draw(self, logits_BV: Tensor) -> tuple[Tensor, Tensor, list[Top]]:
        """Samples a token for each row of the batch.

        Returns:
            The tokens `[B]`, their log-probabilities `[B]`, and the most likely tokens in their
            places, empty if none are reported.

        Raises:
            BlockedError: the constraint of a row allows no token.
        """
        scores_BV = logprobs_BV = logits_BV.log_softmax(-1)
        if self._shapings:
            scores_BV = logits_BV = self._shaped(logits_BV)
        if self.sampling.temperature == 0:
            chosen_B = scores_BV.argmax(-1)
        else:
            chosen_B = self._inverse_cdf(sampling_logprobs(logits_BV, self.sampling))
        self._place += 1
        for row, token in zip(
            self._rows, chosen_B.tolist() if self._shapings else (), strict=False
        ):
            self._shapings[row].add(token)
        tops = tops_of(logprobs_BV, self.sampling.top_logprobs)
        return chosen_B, logprobs_BV.gather(-1, chosen_B[:, None])[:, 0], tops

    def select(self, places: Sequence[int]) -> None:
        """Keeps the rows at these places of the batch."""
        self._rows = [self._rows[index] for index in places]

    def _shaped(self, logits_BV: Tensor) -> Tensor:
        rows = zip(self._rows, logits_BV.float().cpu().numpy(), strict=True)
        shaped = [torch.from_numpy(self._shapings[row].shape(logits_V)) for row, logits_V in rows]
        return torch.stack(shaped).to(logits_BV.device)

    def _inverse_cdf(self, logprobs_BV: Tensor) -> Tensor:
        uniform_B1 = self._uniforms[self._rows, self._place][:, None]
        cumulative_BV = logprobs_BV.cpu().double().exp().cumsum(-1)
        chosen_B = torch.searchsorted(cumulative_BV, uniform_B1 * cumulative_BV[:, -1:])[:, 0]
        return chosen_B.to(logprobs_BV.device)


def tops_of(logprobs_BV: Tensor, count: int) -> list[Top]:
    """Returns the most likely tokens of each row; an empty list if `count` is 0."""
    if not count:
        return []
    return [top_tokens(logprobs_V, count) for logprobs_V in logprobs_BV.cpu().numpy()]


def sampling_logprobs(logits_BV: Tensor, sampling: Sampling) -> Tensor:
    """Returns the log-probabilities that tokens are sampled with, `[B, V]`.

    Temperature first, then min-p (arXiv:2407.01082), then top-k, then top-p (nucleus,
    arXiv:1904.09751).

    Args:
        logits_BV: the model's logits.
        sampling: settings with a temperature above 0.
    """
    logits_BV = logits_BV / sampling.temperature
    if sampling.min_p:
        least_B1 = logits_BV.amax(-1, keepdim=True) + log(sampling.min_p)
        logits_BV = logits_BV.masked_fill(logits_BV < least_B1, -torch.inf)
    if 0 < sampling.top_k < logits_BV.shape[-1]:
        least_B1 = logits_BV.topk(sampling.top_k, -1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < least_B1, -torch.inf)
    if sampling.top_p < 1:
        ranked_BV, order_BV = logits_BV.sort(-1, descending=True)
        probs_BV = ranked_BV.softmax(-1)
        top_p = max(sampling.top_p, LEAST_TOP_P)
        outside_BV = probs_BV.cumsum(-1) - probs_BV >= top_p
        logits_BV = logits_BV.masked_fill(
            torch.zeros_like(outside_BV).scatter(-1, order_BV, outside_BV), -torch.inf
        )
    return logits_BV.log_softmax(-1)
