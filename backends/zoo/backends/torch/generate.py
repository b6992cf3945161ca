"""Batched sampling with the model's cache, and the sampler's own log-probabilities.

Legend: B rows, P prompt positions (padded on the left), V vocabulary.

Each row has its own random stream, so an answer depends on its key and not on other rows.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from zoo.backends.base import Rollout, Sampling
from zoo.backends.torch.loss import LossModule
from zoo.models.refusals import refusals

PADDED, SHORT = 8, 3
"""Lengths of the two prompts that `takes_padding` compares."""

PICKED_KEYS = ("index_topk", "index_topk_blocks", "indexer_budget")
"""Config keys of models that attend to a selection of keys, which may include padding; a test on a
few tokens cannot detect that."""

PADDING_TOLERANCE = {torch.float32: 1e-4}
PADDING_TOLERANCE_16_BITS = 2e-2
"""How much padding may change a logit, relative to the largest one."""


@torch.no_grad()
def generate(
    module: LossModule, prompts: Sequence[Sequence[int]], sampling: Sampling, keys: Sequence[int]
) -> list[Rollout]:
    """Continues each prompt until a stop id or `max_new_tokens`.

    Prompts of different lengths run in one batch if the model supports padding on the left,
    otherwise only those of equal length. A model without a cache recomputes the whole sequence for
    every token.

    Raises:
        ValueError: a prompt is empty, or the number of keys differs from that of prompts.
        InputError: the model cannot run with a cache; the message has transformers' reason.
    """
    if len(keys) != len(prompts) or not all(prompts):
        raise ValueError("generate: expected one key per prompt and no empty prompt")
    answers: dict[int, Rollout] = {}
    for group in _groups(module, prompts):
        rows = _Rows(sampling, [keys[i] for i in group])
        _continue(module, [prompts[i] for i in group], rows)
        answers |= dict(zip(group, rows.rollouts(), strict=True))
    return [answers[i] for i in range(len(prompts))]


def _groups(module: LossModule, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns groups of indices of prompts that can run in one batch."""
    by_length: dict[int, list[int]] = {}
    for place, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(place)
    if len(by_length) > 1 and takes_padding(module):
        return [list(range(len(prompts)))]
    return list(by_length.values())


def takes_padding(module: LossModule) -> bool:
    """Returns whether padding on the left does not change the model's logits.

    It is tested once on a few tokens: decoders of translation models count positions from the
    padding, and state-space models process it.
    """
    if module.takes_padding is None:
        vocabulary = module.model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
        ids = [i * 7919 % vocabulary for i in range(1, PADDED + 1)]
        config: Any = getattr(module.model.config, "text_config", None) or module.model.config
        picks = any(getattr(config, name, None) for name in PICKED_KEYS)
        module.takes_padding = (
            keeps_keys(module) and not picks and _same_padded(module, ids[:SHORT], ids)
        )
    return module.takes_padding


def _same_padded(module: LossModule, short: list[int], long: list[int]) -> bool:
    """Compares the logits of a prompt alone and in a batch with a longer one, for two steps."""
    alone_SV, padded_SV = (_two_steps(module, prompts) for prompts in ([short], [short, long]))
    exact = PADDING_TOLERANCE.get(next(module.parameters()).dtype, PADDING_TOLERANCE_16_BITS)
    tolerance = PADDING_TOLERANCE_16_BITS if module.autocast else exact
    moved = float((padded_SV - alone_SV).abs().max())
    return moved <= tolerance * float(alone_SV.abs().max())


def _two_steps(module: LossModule, prompts: Sequence[Sequence[int]]) -> Tensor:
    """Returns the logits after the first prompt, and after one more token, `[2, V]`."""
    rows = _Fixed(prompts)
    _continue(module, prompts, rows)
    return torch.cat(rows.seen)


def keeps_keys(module: LossModule) -> bool:
    """Returns whether the model has a key-value cache, and so accepts masks and positions."""
    return "past_key_values" in signature(type(module.model).forward).parameters


def _inputs(mask_BP: Tensor) -> dict[str, Tensor]:
    positions_BP = (mask_BP.cumsum(-1) - 1).clamp(min=0)
    return {"attention_mask": mask_BP, "position_ids": positions_BP}


def _continue(module: LossModule, prompts: Sequence[Sequence[int]], rows: "_Rows | _Fixed") -> None:
    """Samples the answers of prompts in one batch."""
    sequence_BP, mask_BP = _left_padded(prompts, next(module.parameters()).device)
    keyed = keeps_keys(module)
    ids_BP, state = sequence_BP, dict[str, Any]()
    for _ in range(rows.max_new_tokens):
        inputs = _inputs(mask_BP) if keyed else {}
        if state and keyed:
            inputs["position_ids"] = inputs["position_ids"][:, -1:]
        with refusals(f"{type(module.model).__name__} cannot be sampled"):
            logits_BV, state = module.next_logits(ids_BP, **inputs, **state)
        drawn_B1 = rows.draw(logits_BV)
        if rows.finished():
            break
        sequence_BP = torch.cat([sequence_BP, drawn_B1], -1)
        mask_BP = torch.cat([mask_BP, torch.ones_like(drawn_B1)], -1)
        ids_BP = drawn_B1 if state else sequence_BP


def _left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    width = max(map(len, prompts))
    ids = [[0] * (width - len(p)) + list(p) for p in prompts]
    mask = [[0] * (width - len(p)) + [1] * len(p) for p in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


class _Fixed:
    """Answers with fixed tokens, for the test of padding."""

    max_new_tokens = 2

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        self.ends = [prompt[-1] for prompt in prompts]
        self.seen: list[Tensor] = []

    def draw(self, logits_BV: Tensor) -> Tensor:
        """Stores the first row's logits and repeats the last token of each prompt, `[B, 1]`."""
        self.seen.append(logits_BV[:1])
        return torch.tensor(self.ends, device=logits_BV.device)[:, None]

    def finished(self) -> bool:
        """Returns whether both steps are done."""
        return len(self.seen) == self.max_new_tokens


class _Rows:
    """The answers during sampling."""

    def __init__(self, sampling: Sampling, keys: Sequence[int]) -> None:
        self.sampling = sampling
        self.max_new_tokens = sampling.max_new_tokens
        self.streams = [torch.Generator().manual_seed(key) for key in keys]
        self.ids: list[list[int]] = [[] for _ in keys]
        self.logprobs: list[list[float]] = [[] for _ in keys]
        self.open = [True] * len(keys)

    def draw(self, logits_BV: Tensor) -> Tensor:
        """Samples one token per row and returns them as `[B, 1]`."""
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
        """Returns whether every row has reached a stop id."""
        return not any(self.open)

    def rollouts(self) -> list[Rollout]:
        """Returns the answers; a row that reached `max_new_tokens` has finish reason `length`."""
        return [
            Rollout(ids, logprobs, "length" if still_open else "stop")
            for ids, logprobs, still_open in zip(self.ids, self.logprobs, self.open, strict=True)
        ]


def sampling_logprobs(logits_BV: Tensor, sampling: Sampling) -> Tensor:
    """Returns the log-probabilities that tokens are sampled with, `[B, V]`.

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
