"""How far the predictions of a model are from those of another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.data.batches import collate, micro_batches
from zoo.gym.data.units import alone
from zoo.gym.measure.held_out import MAX_BATCH_TOKENS

if TYPE_CHECKING:
    from zoo.backends.base import Policy
    from zoo.gym.data.units import Example


@dataclass(frozen=True)
class Divergence:
    """A model's predictions beside those of a reference, over the whole vocabulary.

    Attributes:
        kl: KL(reference || model), nats per learned token.
        top1: the share of learned tokens for which both have the same most likely token.
    """

    kl: float
    top1: float


def divergence(
    reference: "Policy",
    model: "Policy",
    examples: "Sequence[Example]",
    *,
    max_batch_tokens: int = MAX_BATCH_TOKENS,
) -> Divergence:
    """Compares the predictions of two models on rows.

    Raises:
        ValueError: the examples have no learned token.
    """
    from zoo.backends.base import Stat

    tokens = sum(int(example.mask.sum()) for example in examples)
    if not tokens:
        raise ValueError("divergence: expected at least one learned token")
    kl = top1 = 0.0
    for rows in micro_batches(alone(examples), max_batch_tokens=max_batch_tokens):
        needs = frozenset({Stat.FORWARD_KL, Stat.TOP1})
        stats = model.score(collate(rows), needs, teacher=reference)
        kl += float(stats[Stat.FORWARD_KL].sum(dtype="float64"))
        top1 += float(stats[Stat.TOP1].sum(dtype="float64"))
    return Divergence(kl / tokens, top1 / tokens)
