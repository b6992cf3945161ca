"""Divergence between the predictions of two models."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.data.units import alone
from zoo.gym.measure.held_out import MAX_BATCH_TOKENS

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.data.units import Example


def mean_kl(
    reference: "Policy",
    model: "Policy",
    examples: "Sequence[Example]",
    *,
    max_batch_tokens: int = MAX_BATCH_TOKENS,
) -> float:
    """Returns KL(reference || model) in nats per learned token, over the whole vocabulary.

    Raises:
        ValueError: the examples have no learned token.
    """
    from zoo.backends.base import Stat

    tokens = sum(int(example.mask.sum()) for example in examples)
    if not tokens:
        raise ValueError("mean_kl: expected at least one learned token")
    total = 0.0
    for rows in micro_batches(alone(examples), max_batch_tokens=max_batch_tokens):
        needs = frozenset({Stat.FORWARD_KL})
        stats = model.score(collate(rows), needs, teacher=reference)
        total += float(stats[Stat.FORWARD_KL].sum(dtype="float64"))
    return total / tokens
