"""Per-token statistics and their gradients, one chunk of hidden states at a time.

Legend: B rows, T positions, N scored tokens, C tokens of a chunk, D hidden size, V vocabulary.

Two ways to the same numbers. `LOGPROBS` through a plain head has a closed form: the gradient of
token i's log-probability is `W[y_i] - softmax(z_i) @ W`, which does not depend on the objective,
so a frozen head needs one pass. Everything else is differentiated chunk by chunk by autograd,
after the objective has said how much each statistic matters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zoo.backends.base import Stat
from zoo.backends.torch.head import CHUNK_TOKENS, Head, gradient_into, logits_into

FROM_VOCABULARY = frozenset(Stat) - {Stat.VALUES}
FROM_TEACHER = frozenset({Stat.FORWARD_KL, Stat.REVERSE_KL})

Stats = dict[Stat, Tensor]


@dataclass(frozen=True)
class Scored:
    """The tokens to score: the hidden states before each, the token ids, and the two heads."""

    hidden_ND: Tensor
    targets_N: Tensor
    head: Head
    value_head: nn.Module | None = None
    teacher_hidden_ND: Tensor | None = None
    teacher_head: Head | None = None

    def chunks(self) -> list[slice]:
        """Returns the chunks in order."""
        total = self.targets_N.shape[0]
        return [slice(i, min(i + CHUNK_TOKENS, total)) for i in range(0, total, CHUNK_TOKENS)]


def chunk_statistics(
    scored: Scored, needs: frozenset[Stat], hidden_CD: Tensor, part: slice
) -> Stats:
    """Returns each needed statistic of one chunk, float32 `[C]`, differentiable."""
    stats: Stats = {}
    if needs & FROM_VOCABULARY:
        logprobs_CV = torch.log_softmax(scored.head.logits(hidden_CD), -1)
        stats |= _vocabulary_statistics(needs, logprobs_CV, scored.targets_N[part])
        if needs & FROM_TEACHER:
            stats |= _divergences(needs, logprobs_CV, _teacher_logprobs(scored, part))
    if Stat.VALUES in needs:
        assert scored.value_head is not None
        stats[Stat.VALUES] = scored.value_head(hidden_CD.float())[:, 0]
    return stats


def _vocabulary_statistics(needs: frozenset[Stat], logprobs_CV: Tensor, y_C: Tensor) -> Stats:
    stats: Stats = {}
    if Stat.LOGPROBS in needs:
        stats[Stat.LOGPROBS] = logprobs_CV.gather(-1, y_C[:, None])[:, 0]
    if Stat.ENTROPY in needs:
        stats[Stat.ENTROPY] = -(logprobs_CV.exp() * logprobs_CV).sum(-1)
    if Stat.LOG_SUM_SQ_PROBS in needs:
        stats[Stat.LOG_SUM_SQ_PROBS] = torch.logsumexp(2 * logprobs_CV, -1)
    return stats


@torch.no_grad()
def _teacher_logprobs(scored: Scored, part: slice) -> Tensor:
    assert scored.teacher_head is not None
    assert scored.teacher_hidden_ND is not None
    return torch.log_softmax(scored.teacher_head.logits(scored.teacher_hidden_ND[part]), -1)


def _divergences(needs: frozenset[Stat], logprobs_CV: Tensor, teacher_CV: Tensor) -> Stats:
    stats: Stats = {}
    if Stat.FORWARD_KL in needs:
        stats[Stat.FORWARD_KL] = (teacher_CV.exp() * (teacher_CV - logprobs_CV)).sum(-1)
    if Stat.REVERSE_KL in needs:
        stats[Stat.REVERSE_KL] = (logprobs_CV.exp() * (logprobs_CV - teacher_CV)).sum(-1)
    return stats


@torch.no_grad()
def score(scored: Scored, needs: frozenset[Stat]) -> Stats:
    """Returns the statistics of all tokens, float32 `[N]`, without a gradient."""
    parts = [
        chunk_statistics(scored, needs, scored.hidden_ND[part], part) for part in scored.chunks()
    ]
    return _joined(parts, needs, scored.hidden_ND)


def _joined(parts: list[Stats], needs: frozenset[Stat], like: Tensor) -> Stats:
    if not parts:
        return {stat: like.new_zeros(0, dtype=torch.float32) for stat in sorted(needs)}
    return {stat: torch.cat([part[stat] for part in parts]) for stat in sorted(needs)}


Cotangents = Callable[[Stats], Mapping[Stat, Tensor]]
"""Takes the statistics and returns how much the loss changes with each, `[N]`."""


def _closed_form(scored: Scored, needs: frozenset[Stat]) -> bool:
    return needs == frozenset({Stat.LOGPROBS}) and scored.head.plain


def gradients(
    scored: Scored, needs: frozenset[Stat], cotangents: Cotangents, parameters: list[nn.Parameter]
) -> tuple[Tensor, list[Tensor]]:
    """Returns the loss's gradient for the hidden states `[N, D]` and for `parameters`.

    Args:
        scored: the tokens.
        needs: the statistics that the objective reads.
        cotangents: called once with all statistics, before any gradient is formed.
        parameters: those of the output layer and the value head that learn.
    """
    if _closed_form(scored, needs):
        frozen = not parameters
        return (_frozen_head if frozen else _trained_head)(scored, cotangents)
    return _by_autograd(scored, needs, cotangents, parameters)


@torch.no_grad()
def _frozen_head(scored: Scored, cotangents: Cotangents) -> tuple[Tensor, list[Tensor]]:
    """One pass: two products with the head a chunk, and one buffer of logits."""
    weight_VD, y_N = scored.head.weight_VD, scored.targets_N
    logprobs_N = torch.empty(len(y_N), device=weight_VD.device)
    slope_ND = torch.empty_like(scored.hidden_ND, dtype=torch.float32)
    buffer_CV = _logit_buffer(scored)
    for part in scored.chunks():
        z_CV, y_C = buffer_CV[: part.stop - part.start], y_N[part, None]
        logits_into(scored.hidden_ND[part], weight_VD, z_CV)
        logprobs_N[part] = _softmax_in_place(z_CV, y_C)
        gradient_into(z_CV, weight_VD, slope_ND[part]).neg_()
        slope_ND[part] += weight_VD[y_N[part]].float()
    slope_ND *= cotangents({Stat.LOGPROBS: logprobs_N})[Stat.LOGPROBS][:, None]
    return slope_ND.to(scored.hidden_ND.dtype), []


@torch.no_grad()
def _trained_head(scored: Scored, cotangents: Cotangents) -> tuple[Tensor, list[Tensor]]:
    """Two passes: the head's own gradient needs the cotangents before it is summed."""
    weight_VD, y_N, hidden_ND = scored.head.weight_VD, scored.targets_N, scored.hidden_ND
    logprobs_N = torch.empty(len(y_N), device=weight_VD.device)
    buffer_CV = _logit_buffer(scored)
    for part in scored.chunks():
        z_CV = logits_into(hidden_ND[part], weight_VD, buffer_CV[: part.stop - part.start])
        chosen_C = z_CV.gather(-1, y_N[part, None])[:, 0]
        logprobs_N[part] = chosen_C - torch.logsumexp(z_CV, -1)
    cotangents_N = cotangents({Stat.LOGPROBS: logprobs_N})[Stat.LOGPROBS]
    dhidden_ND = torch.empty_like(hidden_ND, dtype=torch.float32)
    dweight_VD = torch.zeros_like(weight_VD, dtype=torch.float32)
    for part in scored.chunks():
        z_CV, y_C = buffer_CV[: part.stop - part.start], y_N[part, None]
        logits_into(hidden_ND[part], weight_VD, z_CV)
        _softmax_in_place(z_CV, y_C)
        c_C = cotangents_N[part, None]
        z_CV.mul_(-c_C).scatter_add_(-1, y_C, c_C)
        gradient_into(z_CV, weight_VD, dhidden_ND[part])
        dweight_VD.addmm_(z_CV.T, hidden_ND[part].float())
    return dhidden_ND.to(hidden_ND.dtype), [dweight_VD.to(weight_VD.dtype)]


def _logit_buffer(scored: Scored) -> Tensor:
    tokens = min(CHUNK_TOKENS, len(scored.targets_N))
    return torch.empty(
        tokens, scored.head.weight_VD.shape[0], device=scored.hidden_ND.device, dtype=torch.float32
    )


def _softmax_in_place(z_CV: Tensor, y_C1: Tensor) -> Tensor:
    """Turns logits into probabilities where they lie; returns the targets' log-probabilities."""
    z_CV -= z_CV.amax(-1, keepdim=True)
    chosen_C = z_CV.gather(-1, y_C1)[:, 0]
    total_C1 = z_CV.exp_().sum(-1, keepdim=True)
    z_CV /= total_C1
    return chosen_C - total_C1[:, 0].log()


def _by_autograd(
    scored: Scored, needs: frozenset[Stat], cotangents: Cotangents, parameters: list[nn.Parameter]
) -> tuple[Tensor, list[Tensor]]:
    # Both passes must draw the same dropout masks.
    with torch.random.fork_rng(_devices(scored.hidden_ND)):
        stats = score(scored, needs)
    weights = cotangents(stats)
    dhidden_ND = torch.empty_like(scored.hidden_ND)
    totals = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for part in scored.chunks():
        with torch.enable_grad():
            hidden_CD = scored.hidden_ND[part].detach().requires_grad_()
            stats = chunk_statistics(scored, needs, hidden_CD, part)
            loss = torch.stack([(stats[s] * weights[s][part]).sum() for s in sorted(needs)]).sum()
        grads = torch.autograd.grad(loss, [hidden_CD, *parameters], allow_unused=True)
        dhidden_ND[part] = grads[0]
        for total, grad in zip(totals, grads[1:], strict=True):
            if grad is not None:
                total.add_(grad)
    return dhidden_ND, [t.to(p.dtype) for t, p in zip(totals, parameters, strict=True)]


def _devices(x: Tensor) -> list[int]:
    return [x.get_device()] if x.is_cuda else []
