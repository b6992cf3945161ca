"""Passes of a divided model: all processes make as many, because each pass is an exchange.

A process that has fewer pieces of work than others makes one more pass, over a batch that weighs
nothing. Models that are not divided make none.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from zoo.backends.base import (
        Array,
        ArrayNamespace,
        Batch,
        LossAndMetrics,
        Policy,
        Scorer,
        Stat,
    )
    from zoo.backends.ranks import Ranks

T = TypeVar("T")


def scored(
    scorer: "Scorer",
    ranks: "Ranks",
    count: int,
    score: Callable[[int], T],
    needs: "frozenset[Stat]",
    *,
    teacher: "Scorer | None" = None,
    key: int | None = None,
) -> dict[int, T]:
    """Returns the results of this process's pieces of work, by number.

    Args:
        scorer: the model.
        ranks: the processes.
        count: the number of pieces, for all processes together.
        score: scores the piece with this number.
        needs: the statistics that are scored.
        teacher: the model that they are compared with.
        key: None if the pieces are scored without dropout.
    """
    local = {index: score(index) for index in ranks.mine(count)}
    if is_short(scorer, ranks, count):
        scorer.score(empty_batch(), needs, teacher=teacher, key=key)
    return local


def keep_pace(
    policy: "Policy", count: int, needs: "frozenset[Stat]", teacher: "Scorer | None" = None
) -> None:
    """Accumulates a gradient of zeros if other processes have one more of `count` micro-batches."""
    if is_short(policy, policy.ranks, count):
        policy.accumulate(_Nothing(needs), empty_batch(), key=0, teacher=teacher)


def is_short(scorer: "Scorer", ranks: "Ranks", count: int) -> bool:
    """Returns whether a model is divided, and others have one more piece of work for it."""
    return len(ranks.mine(count)) * ranks.size < count and scorer.divided


def empty_batch() -> "Batch":
    """Returns a row of two tokens, of which a window of endless length learns the second."""
    import numpy as np

    from zoo.backends.base import Batch
    from zoo.gym.objectives.constants import WINDOW_TOKENS

    return Batch(
        ids_BT=np.array([[0, 1]]),
        lengths_B=np.array([2]),
        loss_mask_BT=np.array([[False, True]]),
        constants={WINDOW_TOKENS: inf},
    )


class _Nothing:
    """An objective that is zero whatever the statistics are."""

    coupled = False

    def __init__(self, needs: "frozenset[Stat]") -> None:
        self.needs = needs

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        del batch
        first, *rest = (xp.sum(xp.clip(stats[stat], -1.0, 1.0)) for stat in sorted(self.needs))
        for term in rest:
            first = first + term
        return first * 0.0, {}
