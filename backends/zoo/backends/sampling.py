"""How tokens are drawn, and what is drawn."""

from dataclasses import dataclass
from math import inf

LEAST_TEMPERATURE = 1e-6
"""Logits divided by less may leave the range of float32."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        max_new_tokens: tokens of an answer at most.
        temperature: what logits are divided by; 0 takes the most likely token.
        top_p: draw among the likeliest tokens that together have this probability; 1 is all.
        top_k: draw among so many of the likeliest tokens; 0 is all.
        stop_ids: the tokens that end an answer.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    stop_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuses settings under which no token could be drawn.

        Raises:
            ValueError: a setting is out of its range; it is named first.
        """
        _require_whole("max_new_tokens", self.max_new_tokens, 1)
        _require_whole("top_k", self.top_k, 0)
        heat = self.temperature
        if heat != 0 and not LEAST_TEMPERATURE <= heat < inf:
            raise ValueError(
                f"temperature: expected 0, or {LEAST_TEMPERATURE:g} or more, got {heat:g}"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected more than 0 and at most 1, got {self.top_p:g}")


def _require_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")


@dataclass(frozen=True)
class Rollout:
    """One answer: its token ids, the sampler's log-probability of each, and why it ended."""

    ids: list[int]
    logprobs: list[float]
    finish: str
