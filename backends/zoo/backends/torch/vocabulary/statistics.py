"""Per-token statistics and their gradients, one chunk of hidden states at a time.

Legend: B rows, T positions, N scored tokens, C tokens of a chunk, D hidden size, V vocabulary.

There are two methods. `LOGPROBS` through a plain head has a closed form: the gradient of
token i's log-probability is `W[y_i] - softmax(z_i) @ W`, which does not depend on the objective,
so a frozen head needs one pass (see `normalise`). Everything else is differentiated chunk by chunk
by autograd, once the objective has returned its derivative by each statistic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from zoo.backends.base import Stat
from zoo.backends.torch.vocabulary.head import CHUNK_TOKENS, Head
from zoo.backends.torch.vocabulary.tiled_softmax import normalise, weighted_gradients

FROM_VOCABULARY = frozenset(Stat) - {Stat.VALUES}
FROM_TEACHER = frozenset({Stat.FORWARD_KL, Stat.REVERSE_KL, Stat.TOP1})

Stats = dict[Stat, Tensor]


@dataclass(frozen=True)
class Scored:
    """The tokens to score: the hidden states before each, the token ids, and the two heads.

    All logits are divided by `temperature`, those of the teacher too.
    """

    hidden_ND: Tensor
    targets_N: Tensor
    head: Head
    temperature: float = 1.0
    value_head: nn.Module | None = None
    teacher_hidden_ND: Tensor | None = None
    teacher_head: Head | None = None

    def chunks(self) -> list[slice]:
        """Returns the chunks in order."""
        total = self.targets_N.shape[0]
        return [slice(i, min(i + CHUNK_TOKENS, total)) for i in range(0, total, CHUNK_TOKENS)]

    def logprobs(self, head: Head, hidden_CD: Tensor) -> Tensor:
        """Returns the log-probabilities of all tokens after these hidden states, `[C, V]`."""
        logits_CV = head.logits(hidden_CD)
        if self.temperature != 1:
            logits_CV = logits_CV / self.temperature
        return torch.log_softmax(logits_CV, -1)

    def at_temperature_1(self) -> "Scored":
        """Returns tokens with the same logits at temperature 1, for a head that is a product."""
        if self.temperature == 1:
            return self
        return replace(self, hidden_ND=self.hidden_ND.float() / self.temperature, temperature=1.0)


def chunk_statistics(
    scored: Scored, needs: frozenset[Stat], hidden_CD: Tensor, part: slice
) -> Stats:
    """Returns each needed statistic of one chunk, float32 `[C]`, differentiable."""
    stats: Stats = {}
    if needs & FROM_VOCABULARY:
        logprobs_CV = scored.logprobs(scored.head, hidden_CD)
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
    return scored.logprobs(scored.teacher_head, scored.teacher_hidden_ND[part])


def _divergences(needs: frozenset[Stat], logprobs_CV: Tensor, teacher_CV: Tensor) -> Stats:
    stats: Stats = {}
    if Stat.FORWARD_KL in needs:
        stats[Stat.FORWARD_KL] = (teacher_CV.exp() * (teacher_CV - logprobs_CV)).sum(-1)
    if Stat.REVERSE_KL in needs:
        stats[Stat.REVERSE_KL] = (logprobs_CV.exp() * (logprobs_CV - teacher_CV)).sum(-1)
    if Stat.TOP1 in needs:
        stats[Stat.TOP1] = (teacher_CV.argmax(-1) == logprobs_CV.argmax(-1)).float()
    return stats


@torch.no_grad()
def score(scored: Scored, needs: frozenset[Stat]) -> Stats:
    """Returns the statistics of all tokens, float32 `[N]`, without a gradient."""
    if _closed_form(scored, needs):
        return {Stat.LOGPROBS: _logprobs(scored.at_temperature_1())}
    parts = [
        chunk_statistics(scored, needs, scored.hidden_ND[part], part) for part in scored.chunks()
    ]
    return _joined(parts, needs, scored.hidden_ND)


def _joined(parts: list[Stats], needs: frozenset[Stat], like: Tensor) -> Stats:
    if not parts:
        return {stat: like.new_zeros(0, dtype=torch.float32) for stat in sorted(needs)}
    return {stat: torch.cat([part[stat] for part in parts]) for stat in sorted(needs)}


Cotangents = Callable[[Stats], Mapping[Stat, Tensor]]
"""Takes the statistics and returns the loss's derivative by each, `[N]`."""


def _closed_form(scored: Scored, needs: frozenset[Stat]) -> bool:
    return needs == frozenset({Stat.LOGPROBS}) and scored.head.plain


def gradients(
    scored: Scored,
    needs: frozenset[Stat],
    cotangents: Cotangents,
    parameters: list[nn.Parameter],
    constant: Mapping[Stat, Tensor] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Returns the loss's gradient with respect to the hidden states `[N, D]` and `parameters`.

    Args:
        scored: the tokens.
        needs: the statistics that the objective reads.
        cotangents: called once with all statistics; before gradients are computed, unless:
        parameters: the trained parameters of the output layer and the value head.
        constant: what `cotangents` returns of any statistics, where that is known.

    Raises:
        ValueError: it returns something else.
    """
    if _closed_form(scored, needs):
        scaled = scored.at_temperature_1()
        closed = _trained_head if parameters else _frozen_head
        dhidden_ND, grads = closed(scaled, cotangents)
        if scored.temperature != 1:
            dhidden_ND = (dhidden_ND / scored.temperature).to(scored.hidden_ND.dtype)
        return dhidden_ND, grads
    return _by_autograd(scored, needs, cotangents, parameters, constant)


@torch.no_grad()
def _logprobs(scored: Scored) -> Tensor:
    normaliser_N, _ = normalise(scored.hidden_ND, scored.head.weight_VD, mean_rows=False)
    return _chosen_logits(scored) - normaliser_N


def _chosen_logits(scored: Scored) -> Tensor:
    rows_ND = scored.head.weight_VD[scored.targets_N].float()
    return rows_ND.mul_(scored.hidden_ND).sum(-1)


@torch.no_grad()
def _frozen_head(scored: Scored, cotangents: Cotangents) -> tuple[Tensor, list[Tensor]]:
    """One pass with two products: the gradients are scaled by the cotangents afterwards."""
    hidden_ND, weight_VD = scored.hidden_ND, scored.head.weight_VD
    normaliser_N, mean_ND = normalise(hidden_ND, weight_VD, mean_rows=True)
    assert mean_ND is not None
    logprobs_N = _chosen_logits(scored) - normaliser_N
    slope_ND = mean_ND.neg_().add_(weight_VD[scored.targets_N])
    slope_ND *= cotangents({Stat.LOGPROBS: logprobs_N})[Stat.LOGPROBS][:, None]
    return slope_ND.to(hidden_ND.dtype), []


@torch.no_grad()
def _trained_head(scored: Scored, cotangents: Cotangents) -> tuple[Tensor, list[Tensor]]:
    """Two passes: the head's gradient needs the cotangents before it is summed."""
    hidden_ND, weight_VD, y_N = scored.hidden_ND, scored.head.weight_VD, scored.targets_N
    normaliser_N, _ = normalise(hidden_ND, weight_VD, mean_rows=False)
    logprobs_N = _chosen_logits(scored) - normaliser_N
    slope_N = cotangents({Stat.LOGPROBS: logprobs_N})[Stat.LOGPROBS]
    dhidden_ND, dweight_VD = weighted_gradients(hidden_ND, weight_VD, normaliser_N, slope_N)
    dhidden_ND += weight_VD[y_N].float().mul_(slope_N[:, None])
    dweight_VD.index_add_(0, y_N, hidden_ND.float() * slope_N[:, None])
    return dhidden_ND.to(hidden_ND.dtype), [dweight_VD.to(weight_VD.dtype)]


def _by_autograd(
    scored: Scored,
    needs: frozenset[Stat],
    cotangents: Cotangents,
    parameters: list[nn.Parameter],
    constant: Mapping[Stat, Tensor] | None,
) -> tuple[Tensor, list[Tensor]]:
    weights = constant
    if weights is None:
        # Both passes must use the same dropout masks.
        with torch.random.fork_rng(_devices(scored.hidden_ND)):
            weights = cotangents(score(scored, needs))
    parts: list[Stats] = []
    dhidden_ND = torch.empty_like(scored.hidden_ND)
    totals = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    scored = _summing(scored, parameters, totals)
    for part in scored.chunks():
        with torch.enable_grad():
            hidden_CD = scored.hidden_ND[part].detach().requires_grad_()
            stats = chunk_statistics(scored, needs, hidden_CD, part)
            loss = torch.stack([(stats[s] * weights[s][part]).sum() for s in sorted(needs)]).sum()
        parts.append({stat: value.detach() for stat, value in stats.items()})
        grads = torch.autograd.grad(loss, [hidden_CD, *parameters], allow_unused=True)
        dhidden_ND[part] = grads[0]
        for total, grad in zip(totals, grads[1:], strict=True):
            if grad is not None:
                total.add_(grad)
    if constant is not None:
        slopes = cotangents(_joined(parts, needs, scored.hidden_ND))
        if not all(_is_equal(slopes[stat], constant[stat]) for stat in needs):
            raise ValueError("linear: expected a derivative that no statistic changes")
    return dhidden_ND, [t.to(p.dtype) for t, p in zip(totals, parameters, strict=True)]


def _is_equal(one: Tensor, other: Tensor) -> bool:
    """Returns whether two tensors have the same values; NaN, as of a diverged model, is one."""
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def _summing(scored: Scored, parameters: list[nn.Parameter], totals: list[Tensor]) -> Scored:
    """Returns the tokens with a head that adds its weight's gradient to its total itself."""
    is_linear = isinstance(scored.head.module, nn.Linear)
    for parameter, total in zip(parameters, totals, strict=True):
        if is_linear and parameter is scored.head.weight_VD:
            return replace(scored, head=replace(scored.head, sum_VD=total))
    return scored


def _devices(x: Tensor) -> list[int]:
    return [x.get_device()] if x.is_cuda else []
