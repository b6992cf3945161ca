"""The settings of sampling, and a sampled answer."""

from dataclasses import dataclass
from math import inf

LEAST_TEMPERATURE = 1e-6
"""Logits divided by less may overflow float32."""


@dataclass(frozen=True)
class Sampling:
    """The settings of sampling.

    Attributes:
        max_new_tokens: the largest number of tokens in an answer.
        temperature: the divisor of the logits; 0 always picks the most likely token.
        top_p: sample from the most likely tokens with this total probability; 1 for all.
        top_k: sample from this many of the most likely tokens; 0 for all.
        stop_ids: the tokens that end an answer.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    stop_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Checks the ranges of the settings.

        Raises:
            ValueError: a setting is out of its range; the message begins with its name.
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
    """One sampled answer.

    Attributes:
        ids: the token ids; one of `stop_ids` is the last if it ended the answer.
        logprobs: the model's log-probability of each token, as `Scorer.score` computes it: at
            temperature 1 and over the whole vocabulary, whatever temperature, top-p and top-k the
            token was sampled with.
        finish: `stop` if one of `stop_ids` was sampled, `length` after `max_new_tokens` without.
    """

    ids: list[int]
    logprobs: list[float]
    finish: str


@dataclass(frozen=True)
class Prefix:
    """Tokens that prompts begin with, as a policy has read them; valid while its weights stay.

    Attributes:
        ids: the tokens.
        kept_bytes: the memory of what is kept of them, once for all rows.
    """

    ids: tuple[int, ...]
    kept_bytes: int
