"""Held-out loss: summed nats over the learned tokens of examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
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
    tokens = sum(int(example.mask.sum()) for example in examples)
    if not tokens:
        raise ValueError("held_out: expected at least one learned token")
    nats = fsum(row_nats(policy, examples, max_batch_tokens=max_batch_tokens))
    return Score(rows=len(examples), tokens=tokens, nats=nats)


def row_nats(
    policy: "Policy", examples: "Sequence[Example]", *, max_batch_tokens: int = MAX_BATCH_TOKENS
) -> list[float]:
    """Returns the summed negative log-likelihood of each row's learned tokens, in nats."""
    from zoo.backends.base import Stat

    nats = [0.0] * len(examples)
    units = alone(examples)
    places = {id(unit): index for index, unit in enumerate(units)}
    for batch in micro_batches(units, max_batch_tokens=max_batch_tokens):
        stats = policy.score(collate(batch), frozenset({Stat.LOGPROBS}))
        sums = stats[Stat.LOGPROBS].sum(axis=1, dtype="float64")
        for unit, total in zip(batch, sums.tolist(), strict=True):
            nats[places[id(unit)]] = -total
    return nats
