"""Direct preference optimisation and the losses of its family: pairs, against a reference model.

DPO (arXiv:2305.18290, eq. 7) makes better answers likelier than worse ones, relative to a
reference: the loss of a pair is -log sigmoid(beta * (r(chosen) - r(rejected))), where r is the log
of policy over reference, summed over the answer. `LOSSES` has that loss as `sigmoid`, and fourteen
others over the same numbers, each with its source. Several can be added, with weights.

Options: other f-divergences than the reverse KL (arXiv:2309.16240), which replace r by f'(exp(r));
labels that are wrong with a known probability; weights of pairs by how likely the policy itself
finds the answers (WPO, arXiv:2406.11827, eq. 2, relative to its own samples); weights of tokens,
which the batch has (LD-DPO, arXiv:2409.06411, `zoo.gym.train.methods.preference`).

Left out: references that move with the policy (TR-DPO), and soft labels by a judge.

Departure from the papers: exponents are limited to 80, so that no loss is infinite.

Legend: B rows, T positions, P pairs.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from zoo.gym.objectives.constants import (
    LOGPROB_WEIGHTS,
    REF_LOGPROBS,
    WINDOW_FIRST_TOKENS,
    WINDOW_UNITS,
)
from zoo.gym.objectives.pairs import (
    MOST_EXPONENT,
    answer_tokens,
    relu,
    reward_metrics,
    sides,
    smoothed_loss,
)
from zoo.gym.objectives.weights import pair_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, LossAndMetrics, Stat


@dataclass(frozen=True)
class DpoLoss:
    """The mean over pairs of one loss, or of a weighted sum of losses.

    Attributes:
        beta: how close the policy stays to the reference; lower lets it move further.
        terms: the name of each loss in `LOSSES` and its weight.
        label_smoothing: the probability that a label is wrong, 0 to below 0.5.
        f_divergence: one of `F_DIVERGENCES`.
        f_alpha: the order of the alpha-divergence; 1 is the reverse KL.
        use_weighting: weigh pairs by the likelihood of their answers.
        discopop_tau: the temperature of `discopop`.
    """

    beta: float = 0.1
    terms: tuple[tuple[str, float], ...] = (("sigmoid", 1.0),)
    label_smoothing: float = 0.0
    f_divergence: str = "reverse_kl"
    f_alpha: float = 0.5
    use_weighting: bool = False
    discopop_tau: float = 0.05

    @property
    def needs(self) -> "frozenset[Stat]":
        """Log-probabilities; for weights of pairs also the sum of squared probabilities."""
        from zoo.backends.base import Stat

        weighting = {Stat.LOG_SUM_SQ_PROBS} if self.use_weighting else set[Stat]()
        return frozenset({Stat.LOGPROBS} | weighting)

    @property
    def coupled(self) -> bool:
        """Whether one of the losses sorts the pairs."""
        return any(name in SORTING for name, _ in self.terms)

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        """Returns the loss and the metrics of `reward_metrics`; the rewards are beta * r."""
        pairs = _pairs(self, xp, stats, batch)
        weights_P = pair_weights(batch)
        if self.use_weighting:
            weights_P = weights_P * _weights(xp, stats, batch)
        total = 0.0
        for name, weight in self.terms:
            total = total + weight * xp.sum(weights_P * LOSSES[name](self, xp, pairs))
        rewards = (self.beta * pairs.chosen, self.beta * pairs.rejected)
        return total / batch[WINDOW_UNITS], reward_metrics(xp, *rewards, batch)


@dataclass(frozen=True)
class _Pairs:
    """What the losses read, `[P]` each.

    Attributes:
        chosen: log of policy over reference of the better answer.
        rejected: the same of the worse answer.
        chosen_score: `chosen` after the f-divergence.
        rejected_score: `rejected` after the f-divergence.
        chosen_mean: `chosen_score` per token.
        rejected_mean: `rejected_score` per token.
        policy_gap: the log-probability of the better answer minus that of the worse one.
        reference_gap: the same under the reference.
        nll: minus the log-probability of the better answer, scaled so that its mean over the
            pairs is the mean over all tokens of better answers.
    """

    chosen: "Array"
    rejected: "Array"
    chosen_score: "Array"
    rejected_score: "Array"
    chosen_mean: "Array"
    rejected_mean: "Array"
    policy_gap: "Array"
    reference_gap: "Array"
    nll: "Array"

    @property
    def delta(self) -> "Array":
        """The difference of the scores."""
        return self.chosen_score - self.rejected_score


def _pairs(
    loss: DpoLoss, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
) -> _Pairs:
    from zoo.backends.base import Stat

    mask_BT, logprobs_BT = batch["mask"], stats[Stat.LOGPROBS]
    weights_BT = mask_BT * batch[LOGPROB_WEIGHTS] if LOGPROB_WEIGHTS in batch else mask_BT
    chosen, rejected = sides(xp.sum(logprobs_BT * weights_BT, axis=-1))
    ref_chosen, ref_rejected = sides(xp.sum(batch[REF_LOGPROBS] * weights_BT, axis=-1))
    chosen_tokens, rejected_tokens = sides(answer_tokens(xp, batch))
    divergence = F_DIVERGENCES[loss.f_divergence]
    chosen_score = divergence(loss, xp, chosen - ref_chosen)
    rejected_score = divergence(loss, xp, rejected - ref_rejected)
    spoken, _ = sides(xp.sum(logprobs_BT * mask_BT, axis=-1))
    return _Pairs(
        chosen=chosen - ref_chosen,
        rejected=rejected - ref_rejected,
        chosen_score=chosen_score,
        rejected_score=rejected_score,
        chosen_mean=chosen_score / chosen_tokens,
        rejected_mean=rejected_score / rejected_tokens,
        policy_gap=chosen - rejected,
        reference_gap=ref_chosen - ref_rejected,
        nll=-spoken * batch[WINDOW_UNITS] / max(batch[WINDOW_FIRST_TOKENS], 1.0),
    )


def _weights(
    xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
) -> "Array":
    """Returns the weight of each pair, `[P]`, as a constant.

    The mean log-probability of an answer is taken relative to log(sum(p^2)), its expected value
    under the policy, so that an answer as likely as a sampled one has about the weight 1.
    """
    from zoo.backends.base import Stat

    aligned_BT = (stats[Stat.LOGPROBS] - stats[Stat.LOG_SUM_SQ_PROBS]) * batch["mask"]
    mean_B = xp.sum(aligned_BT, axis=-1) / answer_tokens(xp, batch)
    chosen_P, rejected_P = sides(xp.stop_gradient(xp.exp(mean_B)))
    return chosen_P * rejected_P


def _exp(xp: "ArrayNamespace", x: "Array") -> "Array":
    """Returns exp(x), and exp(80) above 80."""
    return xp.exp(xp.minimum(x, MOST_EXPONENT * xp.ones_like(x)))


# ---- f-divergences: f'(t) at t = exp(r), arXiv:2309.16240, table 1


def _reverse_kl(_: DpoLoss, _xp: "ArrayNamespace", r: "Array") -> "Array":
    return r


def _forward_kl(_: DpoLoss, xp: "ArrayNamespace", r: "Array") -> "Array":
    """1 - 1 / t."""
    return 1 - _exp(xp, -r)


def _js(_: DpoLoss, xp: "ArrayNamespace", r: "Array") -> "Array":
    """log(2t / (t + 1))."""
    return math.log(2) + xp.log_sigmoid(r)


def _alpha(loss: DpoLoss, xp: "ArrayNamespace", r: "Array") -> "Array":
    """(t^(alpha - 1) - 1) / (alpha - 1), which is log t in the limit of alpha = 1."""
    order = loss.f_alpha - 1
    return r if abs(order) < 1e-6 else (_exp(xp, order * r) - 1) / order


Score = Callable[[DpoLoss, "ArrayNamespace", "Array"], "Array"]

F_DIVERGENCES: Mapping[str, Score] = MappingProxyType(
    {
        "reverse_kl": _reverse_kl,
        "forward_kl": _forward_kl,
        "js_divergence": _js,
        "alpha_divergence": _alpha,
    }
)
"""The score of an answer under each divergence, from the log of policy over reference."""


# ---- losses, `[P]` each


def _sigmoid(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """DPO, arXiv:2305.18290, eq. 7; with label smoothing the conservative DPO."""
    return smoothed_loss(xp, loss.beta * p.delta, loss.label_smoothing)


def _sigmoid_norm(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """Length-normalised DPO, arXiv:2411.15124."""
    return -xp.log_sigmoid(loss.beta * (p.chosen_mean - p.rejected_mean))


def _hinge(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """RSO, arXiv:2309.06657: the hinge loss of SLiC on the scores of DPO."""
    return relu(xp, 1 - loss.beta * p.delta)


def _ipo(loss: DpoLoss, _: "ArrayNamespace", p: _Pairs) -> "Array":
    """IPO, arXiv:2310.12036, eq. 17, with scores per token, as its authors report them."""
    return (p.chosen_mean - p.rejected_mean - 1 / (2 * loss.beta)) ** 2


def _exo_pair(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """EXO, arXiv:2402.00856, eq. 16 for two answers: the reverse KL to smoothed labels."""
    margin, error = loss.beta * p.delta, loss.label_smoothing
    won = xp.sigmoid(margin) * (xp.log_sigmoid(margin) - math.log1p(-error))
    return won + xp.sigmoid(-margin) * (xp.log_sigmoid(-margin) - math.log(error))


def _nca_pair(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """NCA, arXiv:2402.05369, for two answers: keeps the better one's likelihood up."""
    chosen, rejected = loss.beta * p.chosen, loss.beta * p.rejected
    worse = xp.log_sigmoid(-chosen) + xp.log_sigmoid(-rejected)
    return -xp.log_sigmoid(chosen) - 0.5 * worse


def _robust(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """Robust DPO, arXiv:2403.00409: unbiased under flipped labels."""
    margin, error = loss.beta * p.delta, loss.label_smoothing
    likely = -(1 - error) * xp.log_sigmoid(margin)
    return (likely + error * xp.log_sigmoid(-margin)) / (1 - 2 * error)


def _bco_pair(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """BCO, arXiv:2404.04656, on both answers of a pair, without the shift of rewards."""
    return -xp.log_sigmoid(loss.beta * p.chosen) - xp.log_sigmoid(-loss.beta * p.rejected)


def _sppo_hard(loss: DpoLoss, _: "ArrayNamespace", p: _Pairs) -> "Array":
    """SPPO, arXiv:2405.00675, eq. 4.7, where the better answer always wins."""
    return (p.chosen - 0.5 / loss.beta) ** 2 + (p.rejected + 0.5 / loss.beta) ** 2


def _aot(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """AOT for pairs, arXiv:2406.05882: sorts the gaps of policy and of reference."""
    margin = loss.beta * (xp.sort(p.policy_gap) - xp.sort(p.reference_gap))
    return smoothed_loss(xp, margin, loss.label_smoothing)


def _aot_unpaired(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """AOT without pairs, arXiv:2406.05882: sorts better and worse answers."""
    margin = loss.beta * (xp.sort(p.chosen) - xp.sort(p.rejected))
    return smoothed_loss(xp, margin, loss.label_smoothing)


def _apo_zero(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """APO-zero, arXiv:2408.06266, eq. 7: for answers that are better than the model's own."""
    return 1 - xp.sigmoid(loss.beta * p.chosen) + xp.sigmoid(loss.beta * p.rejected)


def _apo_down(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """APO-down, arXiv:2408.06266, eq. 8: for answers that are worse than the model's own."""
    won = xp.sigmoid(loss.beta * (p.chosen - p.rejected))
    return xp.sigmoid(loss.beta * p.chosen) + 1 - won


def _discopop(loss: DpoLoss, xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """DiscoPOP, arXiv:2406.08414, eq. 5: blends the logistic and the exponential loss."""
    margin = loss.beta * p.delta
    share = xp.sigmoid(margin / loss.discopop_tau)
    return -xp.log_sigmoid(margin) * (1 - share) + _exp(xp, -margin) * share


def _sft(_: DpoLoss, _xp: "ArrayNamespace", p: _Pairs) -> "Array":
    """The likelihood of the better answers, per token of the window (RPO, arXiv:2404.19733)."""
    return p.nll


PairLoss = Callable[[DpoLoss, "ArrayNamespace", _Pairs], "Array"]

LOSSES: Mapping[str, PairLoss] = MappingProxyType(
    {
        "sigmoid": _sigmoid,
        "hinge": _hinge,
        "ipo": _ipo,
        "exo_pair": _exo_pair,
        "nca_pair": _nca_pair,
        "robust": _robust,
        "bco_pair": _bco_pair,
        "sppo_hard": _sppo_hard,
        "aot": _aot,
        "aot_unpaired": _aot_unpaired,
        "apo_zero": _apo_zero,
        "apo_down": _apo_down,
        "discopop": _discopop,
        "sft": _sft,
        "sigmoid_norm": _sigmoid_norm,
    }
)
"""The loss of each pair, by name."""

SORTING = frozenset({"aot", "aot_unpaired"})
"""The losses that sort the pairs of a window, so that pairs depend on each other."""

DIVERGING = frozenset({"sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop"})
"""The losses that read scores, which the f-divergence changes."""

SMOOTHED = frozenset({"sigmoid", "exo_pair", "robust", "aot", "aot_unpaired"})
"""The losses that take label smoothing."""
