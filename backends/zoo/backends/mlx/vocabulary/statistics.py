"""Per-token statistics and their gradients, one chunk of hidden states at a time.

Legend: N scored tokens, C tokens of a chunk, D hidden size, V vocabulary.

MLX is lazy: cutting the tokens into chunks bounds the memory only if each chunk is evaluated, and
an evaluation inside a traced function makes it worse. So hidden states come from outside any trace,
the logits of a chunk are evaluated, and only the functions of the logits are differentiated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mlx.core as mx

from zoo.backends.base import Stat
from zoo.backends.mlx.vocabulary.head import CHUNK_TOKENS, Head

FROM_VOCABULARY = frozenset(Stat) - {Stat.VALUES}
FROM_TEACHER = frozenset({Stat.FORWARD_KL, Stat.REVERSE_KL, Stat.TOP1})

Stats = dict[Stat, mx.array]
Cotangents = Callable[[Stats], Mapping[Stat, mx.array]]
"""Takes the statistics and returns the loss's derivative by each, `[N]`."""


@dataclass(frozen=True)
class Teacher:
    """Another policy's hidden states at the learned tokens, and its head's logits."""

    hidden_ND: mx.array
    logits: Callable[[mx.array], mx.array]


@dataclass(frozen=True)
class Scored:
    """The tokens to score: the hidden states before each, the token ids, and the heads.

    All logits are divided by `temperature`, those of the teacher too.
    """

    hidden_ND: mx.array
    targets_N: mx.array
    head: Head
    temperature: float = 1.0
    value_weight_1D: mx.array | None = None
    teacher: Teacher | None = None

    def chunks(self) -> list[slice]:
        """Returns the chunks in order."""
        total = self.targets_N.shape[0]
        return [slice(i, min(i + CHUNK_TOKENS, total)) for i in range(0, total, CHUNK_TOKENS)]


@dataclass
class Gradients:
    """The loss's gradients above the backbone.

    Attributes:
        hidden_ND: by the hidden states, float32.
        head: by the output layer's weight or adapter, by the name of the parameter in the layer.
        value_1D: by the value head, if there is one.
    """

    hidden_ND: mx.array
    head: dict[str, mx.array]
    value_1D: mx.array | None = None

    def add(self, head: Mapping[str, mx.array]) -> None:
        """Adds a chunk's gradients of the output layer."""
        for name, grad in head.items():
            self.head[name] = self.head[name] + grad if name in self.head else grad
        mx.eval(self.head)


def score(scored: Scored, needs: frozenset[Stat]) -> Stats:
    """Returns the statistics of all tokens, float32 `[N]`."""
    parts: list[Stats] = []
    for part in scored.chunks():
        stats: Stats = {}
        if needs & FROM_VOCABULARY:
            product_CV = scored.head.product(scored.hidden_ND[part], part.start)
            stats |= _from_vocabulary(scored, needs, part)(product_CV)
        if Stat.VALUES in needs:
            stats[Stat.VALUES] = _values(scored, part)
        mx.eval(stats)
        parts.append(stats)
    return _joined(parts, needs)


def _joined(parts: list[Stats], needs: frozenset[Stat]) -> Stats:
    if not parts:
        return {stat: mx.zeros((0,)) for stat in sorted(needs)}
    return {stat: mx.concatenate([part[stat] for part in parts]) for stat in sorted(needs)}


def _values(scored: Scored, part: slice) -> mx.array:
    assert scored.value_weight_1D is not None
    return (scored.hidden_ND[part].astype(mx.float32) @ scored.value_weight_1D.T)[:, 0]


def _from_vocabulary(
    scored: Scored, needs: frozenset[Stat], part: slice
) -> Callable[[mx.array], Stats]:
    """Returns the function from a chunk's product `[C, V]` to its statistics."""
    y_C1 = scored.targets_N[part][:, None]
    teacher_CV = _teacher_logprobs(scored, part) if needs & FROM_TEACHER else None

    def statistics(product_CV: mx.array) -> Stats:
        logprobs_CV = _log_softmax(scored.head.transformed(product_CV), scored.temperature)
        stats: Stats = {}
        if Stat.LOGPROBS in needs:
            stats[Stat.LOGPROBS] = mx.take_along_axis(logprobs_CV, y_C1, -1)[:, 0]
        if Stat.ENTROPY in needs:
            stats[Stat.ENTROPY] = -(mx.exp(logprobs_CV) * logprobs_CV).sum(-1)
        if Stat.LOG_SUM_SQ_PROBS in needs:
            stats[Stat.LOG_SUM_SQ_PROBS] = mx.logsumexp(2 * logprobs_CV, -1)
        if Stat.FORWARD_KL in needs:
            stats[Stat.FORWARD_KL] = (mx.exp(teacher_CV) * (teacher_CV - logprobs_CV)).sum(-1)
        if Stat.REVERSE_KL in needs:
            stats[Stat.REVERSE_KL] = (mx.exp(logprobs_CV) * (logprobs_CV - teacher_CV)).sum(-1)
        if Stat.TOP1 in needs:
            same = mx.argmax(teacher_CV, -1) == mx.argmax(logprobs_CV, -1)
            stats[Stat.TOP1] = same.astype(mx.float32)
        return stats

    return statistics


def _log_softmax(logits_CV: mx.array, temperature: float) -> mx.array:
    if temperature != 1:
        logits_CV = logits_CV / temperature
    return logits_CV - mx.logsumexp(logits_CV, -1, keepdims=True)


def _teacher_logprobs(scored: Scored, part: slice) -> mx.array:
    assert scored.teacher is not None
    logits_CV = scored.teacher.logits(scored.teacher.hidden_ND[part])
    logprobs = _log_softmax(logits_CV, scored.temperature)
    mx.eval(logprobs)
    return logprobs


def gradients(
    scored: Scored, needs: frozenset[Stat], cotangents: Cotangents, *, head_trained: bool
) -> Gradients:
    """Returns the loss's gradients by the hidden states, the output layer and the value head.

    Args:
        scored: the tokens.
        needs: the statistics that the objective reads.
        cotangents: called once with all statistics, before gradients are computed.
        head_trained: whether the weight of the output layer is trained; its adapter always is.
    """
    if needs == frozenset({Stat.LOGPROBS}) and scored.head.plain and not head_trained:
        return _frozen_head(scored, cotangents)
    weights = cotangents(score(scored, needs))
    total = Gradients(mx.zeros_like(scored.hidden_ND.astype(mx.float32)), {})
    parts: list[mx.array] = []
    for part in scored.chunks():
        dhidden_CD = mx.zeros(scored.hidden_ND[part].shape)
        if needs & FROM_VOCABULARY:
            dhidden_CD, head = _chunk(scored, needs, weights, part, head_trained=head_trained)
            total.add(head)
        if Stat.VALUES in needs:
            slope_C1 = weights[Stat.VALUES][part][:, None]
            dhidden_CD = dhidden_CD + slope_C1 * scored.value_weight_1D
            value_1D = slope_C1.T @ scored.hidden_ND[part].astype(mx.float32)
            total.value_1D = value_1D if total.value_1D is None else total.value_1D + value_1D
            mx.eval(dhidden_CD, total.value_1D)
        parts.append(dhidden_CD)
    if parts:
        total.hidden_ND = mx.concatenate(parts)
    return total


def _chunk(
    scored: Scored,
    needs: frozenset[Stat],
    weights: Mapping[Stat, mx.array],
    part: slice,
    *,
    head_trained: bool,
) -> tuple[mx.array, dict[str, mx.array]]:
    """Returns a chunk's gradient by the hidden states, and by the output layer."""
    hidden_CD, used = scored.hidden_ND[part], sorted(needs & FROM_VOCABULARY)
    statistics = _from_vocabulary(scored, needs, part)

    def weighted(product_CV: mx.array) -> mx.array:
        stats = statistics(product_CV)
        return sum(((stats[stat] * weights[stat][part]).sum() for stat in used), mx.array(0.0))

    grad_CV = mx.grad(weighted)(scored.head.product(hidden_CD, part.start))
    mx.eval(grad_CV)
    dhidden_CD, head = scored.head.backward(grad_CV), dict[str, mx.array]()
    if scored.head.adapter is not None:
        more_CD, head = scored.head.adapter_backward(hidden_CD, grad_CV, part.start)
        dhidden_CD = dhidden_CD + more_CD
    elif head_trained:
        head = {"weight": grad_CV.T @ hidden_CD.astype(mx.float32)}
    mx.eval(dhidden_CD, head)
    return dhidden_CD, head


def _frozen_head(scored: Scored, cotangents: Cotangents) -> Gradients:
    """One pass: token i's log-probability has the gradient `W[y_i] - softmax(z_i) @ W`.

    It does not depend on the objective, so it is scaled by the cotangents afterwards.
    """
    logprobs: list[mx.array] = []
    slopes: list[mx.array] = []
    for part in scored.chunks():
        y_C = scored.targets_N[part]
        product_CV = scored.head.product(scored.hidden_ND[part], part.start)
        logprobs_CV = _log_softmax(product_CV, scored.temperature)
        chosen_C = mx.take_along_axis(logprobs_CV, y_C[:, None], -1)[:, 0]
        probs_CV = mx.exp(logprobs_CV)
        mx.eval(chosen_C, probs_CV)
        slope_CD = (scored.head.rows(y_C) - scored.head.backward(probs_CV)) / scored.temperature
        mx.eval(slope_CD)
        logprobs.append(chosen_C)
        slopes.append(slope_CD)
    stats = _joined([{Stat.LOGPROBS: values} for values in logprobs], frozenset({Stat.LOGPROBS}))
    weights_N = cotangents(stats)[Stat.LOGPROBS]
    if not slopes:
        return Gradients(mx.zeros_like(scored.hidden_ND.astype(mx.float32)), {})
    return Gradients(mx.concatenate(slopes) * weights_N[:, None], {})
