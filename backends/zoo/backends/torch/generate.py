"""Batched sampling with a key-value cache and the sampler's own log-probabilities.

Legend: B rows, P prompt positions (padded on the left), V vocabulary.

Each row draws from a stream of its own, so an answer depends on its key and not on its neighbours.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.backends.base import Rollout, Sampling
from zoo.backends.torch.loss import LossModule
from zoo.core.errors import InputError


@torch.no_grad()
def generate(
    module: LossModule, prompts: Sequence[Sequence[int]], sampling: Sampling, keys: Sequence[int]
) -> list[Rollout]:
    """Continues each prompt until a stop id or `max_new_tokens`.

    Raises:
        ValueError: a prompt is empty, or there is not one key per prompt.
        InputError: the model keeps no key-value cache (a state-space model).
    """
    if len(keys) != len(prompts) or not all(prompts):
        raise ValueError("generate: expected one key per prompt and no empty prompt")
    if not prompts:
        return []
    rows = _Rows(sampling, keys)
    ids_BP, mask_BP = _left_padded(prompts, next(module.parameters()).device)
    positions_BP = (mask_BP.cumsum(-1) - 1).clamp(min=0)
    cache = None
    for _ in range(sampling.max_new_tokens):
        logits_BV, cache = module.next_logits(
            ids_BP, attention_mask=mask_BP, position_ids=positions_BP, past_key_values=cache
        )
        if cache is None:
            name = type(module.model).__name__
            raise InputError(f"{name} cannot be sampled: expected a key-value cache, got none")
        ids_BP = rows.draw(logits_BV)
        if rows.finished():
            break
        mask_BP = torch.cat([mask_BP, torch.ones_like(ids_BP)], -1)
        positions_BP = positions_BP[:, -1:] + 1
    return rows.rollouts()


def _left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    width = max(map(len, prompts))
    ids = [[0] * (width - len(p)) + list(p) for p in prompts]
    mask = [[0] * (width - len(p)) + [1] * len(p) for p in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


class _Rows:
    """The answers as they grow."""

    def __init__(self, sampling: Sampling, keys: Sequence[int]) -> None:
        self.sampling = sampling
        self.streams = [torch.Generator().manual_seed(key) for key in keys]
        self.ids: list[list[int]] = [[] for _ in keys]
        self.logprobs: list[list[float]] = [[] for _ in keys]
        self.open = [True] * len(keys)

    def draw(self, logits_BV: Tensor) -> Tensor:
        """Draws one token per row and returns them as `[B, 1]`."""
        logprobs_BV = sampling_logprobs(logits_BV, self.sampling)
        if self.sampling.temperature == 0:
            chosen_B = logprobs_BV.argmax(-1)
        else:
            chosen_B = self._inverse_cdf(logprobs_BV)
        taken_B = logprobs_BV.gather(-1, chosen_B[:, None])[:, 0]
        for row, (token, logprob) in enumerate(
            zip(chosen_B.tolist(), taken_B.tolist(), strict=True)
        ):
            if self.open[row]:
                self.ids[row].append(token)
                self.logprobs[row].append(logprob)
                self.open[row] = token not in self.sampling.stop_ids
        return chosen_B[:, None]

    def _inverse_cdf(self, logprobs_BV: Tensor) -> Tensor:
        uniform = [torch.rand((), generator=s, dtype=torch.float64) for s in self.streams]
        uniform_B1 = torch.stack(uniform)[:, None]
        cumulative_BV = logprobs_BV.cpu().double().exp().cumsum(-1)
        chosen_B = torch.searchsorted(cumulative_BV, uniform_B1 * cumulative_BV[:, -1:])[:, 0]
        return chosen_B.to(logprobs_BV.device)

    def finished(self) -> bool:
        """Returns whether every row has met a stop id."""
        return not any(self.open)

    def rollouts(self) -> list[Rollout]:
        """Returns the answers; a row cut at `max_new_tokens` finished by length."""
        return [
            Rollout(ids, logprobs, "length" if still_open else "stop")
            for ids, logprobs, still_open in zip(self.ids, self.logprobs, self.open, strict=True)
        ]


def sampling_logprobs(logits_BV: Tensor, sampling: Sampling) -> Tensor:
    """Returns the log-probabilities that tokens are drawn with, `[B, V]`.

    Temperature first, then top-k, then top-p (nucleus, arXiv:1904.09751). Greedy sampling reports
    the model's own log-probabilities at temperature 1.
    """
    if sampling.temperature == 0:
        return logits_BV.log_softmax(-1)
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
