"""Held-out loss: summed nats over the learned tokens of examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.data.units import alone

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.data.units import Example

MAX_BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Score:
    """Summed negative log-likelihood of `tokens` learned tokens in `rows` rows, in nats."""

    rows: int
    tokens: int
    nats: float

    @property
    def loss(self) -> float:
        """Nats per learned token."""
        return self.nats / self.tokens


def held_out(
    policy: "Policy", examples: "Sequence[Example]", *, max_batch_tokens: int = MAX_BATCH_TOKENS
) -> Score:
    """Scores `examples` with `policy`, in batches of at most `max_batch_tokens` with padding.

    Raises:
        ValueError: the examples have no learned token.
    """
    from zoo.backends.base import Stat

    tokens = sum(int(example.mask.sum()) for example in examples)
    if not tokens:
        raise ValueError("held_out: expected at least one learned token")
    nats = 0.0
    for rows in micro_batches(alone(examples), max_batch_tokens=max_batch_tokens):
        stats = policy.score(collate(rows), frozenset({Stat.LOGPROBS}))
        nats -= float(stats[Stat.LOGPROBS].sum(dtype="float64"))
    return Score(rows=len(examples), tokens=tokens, nats=nats)
