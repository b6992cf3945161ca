"""One small objective for each thing that an engine must get right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zoo.backends.base import ArrayNamespace, LossAndMetrics, Stat

Stats = Mapping[Stat, Any]
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class TestObjective:
    __test__ = False
    name: str
    needs: frozenset[Stat]
    loss: Callable[[Any, Stats, Arrays], Any]
    coupled: bool = False

    metrics: Callable[[Any, Stats, Arrays], dict[str, Any]] = lambda xp, stats, batch: {}
    linear: bool = False

    def __call__(self, xp: ArrayNamespace, stats: Stats, batch: Arrays) -> LossAndMetrics:
        return self.loss(xp, stats, batch), self.metrics(xp, stats, batch)


def _sft(xp: Any, s: Stats, b: Arrays) -> Any:
    return -xp.sum(s[Stat.LOGPROBS] * b["mask"]) / b["window_tokens"]


def _dpo(xp: Any, s: Stats, b: Arrays) -> Any:
    d = xp.sum((s[Stat.LOGPROBS] - b["ref"]) * b["mask"], axis=-1)
    return -xp.sum(xp.log_sigmoid(0.1 * (d[0::2] - d[1::2]))) / b["window_rows"]


def _grpo(xp: Any, s: Stats, b: Arrays) -> Any:
    new = s[Stat.LOGPROBS]
    ratio, gain = xp.exp(new - xp.stop_gradient(new)), b["advantages"][:, None]
    surrogate = xp.minimum(ratio * gain, xp.clip(ratio, 0.8, 1.2) * gain)
    d = b["ref"] - new
    token = -surrogate + 0.04 * (xp.exp(d) - d - 1) - 0.01 * s[Stat.ENTROPY]
    return xp.sum(token * b["mask"]) / b["window_tokens"]


def _critic(xp: Any, s: Stats, b: Arrays) -> Any:
    error = (s[Stat.VALUES] - b["returns"]) ** 2
    token = 0.5 * error - s[Stat.LOGPROBS] - 0.01 * s[Stat.ENTROPY]
    return xp.sum(token * b["mask"]) / b["window_tokens"]


def _distill(xp: Any, s: Stats, b: Arrays) -> Any:
    token = 0.5 * s[Stat.FORWARD_KL] + 0.5 * s[Stat.REVERSE_KL] - 0.1 * s[Stat.LOG_SUM_SQ_PROBS]
    return xp.sum(token * b["mask"]) / b["window_tokens"]


def _pair_metrics(xp: Any, s: Stats, b: Arrays) -> dict[str, Any]:
    d = xp.sum((s[Stat.LOGPROBS] - b["ref"]) * b["mask"], axis=-1)
    margins = d[0::2] - d[1::2]
    won = xp.where(margins > 0, xp.ones_like(margins), xp.zeros_like(margins))
    return {
        "accuracy": xp.sum(won) / b["window_rows"],
        "margin": xp.sum(margins) / b["window_rows"],
    }


def _sorted_pairs(xp: Any, s: Stats, b: Arrays) -> Any:
    z = xp.sum(s[Stat.LOGPROBS] * b["mask"], axis=-1)
    r = xp.sum(b["ref"] * b["mask"], axis=-1)
    gap = xp.sort(z[0::2] - z[1::2]) - xp.sort(r[0::2] - r[1::2])
    return -xp.sum(xp.log_sigmoid(gap)) / b["window_rows"]


SFT = TestObjective("sft", frozenset({Stat.LOGPROBS}), _sft)
DPO = TestObjective("dpo", frozenset({Stat.LOGPROBS}), _dpo, metrics=_pair_metrics)
GRPO = TestObjective("grpo", frozenset({Stat.LOGPROBS, Stat.ENTROPY}), _grpo)
CRITIC = TestObjective("critic", frozenset({Stat.LOGPROBS, Stat.ENTROPY, Stat.VALUES}), _critic)
DISTILL = TestObjective(
    "distill",
    frozenset({Stat.FORWARD_KL, Stat.REVERSE_KL, Stat.LOG_SUM_SQ_PROBS}),
    _distill,
    linear=True,
)
SORTED = TestObjective(
    "sorted pairs", frozenset({Stat.LOGPROBS}), _sorted_pairs, coupled=True, metrics=_pair_metrics
)
