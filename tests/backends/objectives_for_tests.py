"""One small objective for each thing that an engine must get right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zoo.backends.base import ArrayNamespace, Stat

Stats = Mapping[Stat, Any]
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class TestObjective:
    __test__ = False
    name: str
    needs: frozenset[Stat]
    loss: Callable[[Any, Stats, Arrays], Any]
    coupled: bool = False

    def __call__(self, xp: ArrayNamespace, stats: Stats, batch: Arrays) -> Any:
        return self.loss(xp, stats, batch)


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


def _sorted_pairs(xp: Any, s: Stats, b: Arrays) -> Any:
    z = xp.sum(s[Stat.LOGPROBS] * b["mask"], axis=-1)
    r = xp.sum(b["ref"] * b["mask"], axis=-1)
    gap = xp.sort(z[0::2] - z[1::2]) - xp.sort(r[0::2] - r[1::2])
    return -xp.sum(xp.log_sigmoid(gap)) / b["window_rows"]


SFT = TestObjective("sft", frozenset({Stat.LOGPROBS}), _sft)
DPO = TestObjective("dpo", frozenset({Stat.LOGPROBS}), _dpo)
GRPO = TestObjective("grpo", frozenset({Stat.LOGPROBS, Stat.ENTROPY}), _grpo)
CRITIC = TestObjective("critic", frozenset({Stat.LOGPROBS, Stat.ENTROPY, Stat.VALUES}), _critic)
DISTILL = TestObjective(
    "distill", frozenset({Stat.FORWARD_KL, Stat.REVERSE_KL, Stat.LOG_SUM_SQ_PROBS}), _distill
)
SORTED = TestObjective("sorted pairs", frozenset({Stat.LOGPROBS}), _sorted_pairs, coupled=True)
