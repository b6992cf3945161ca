"""One window of micro-batches: the same gradient however the window is split.

Legend: B rows, T positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from zoo.gym.errors import GuardError
from zoo.gym.train.parallel.pace import keep_pace, scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.backends.base import (
        Array,
        ArrayNamespace,
        Batch,
        LossAndMetrics,
        Objective,
        Policy,
        Scorer,
        Stat,
    )


def accumulate_window(
    policy: "Policy",
    objective: "Objective",
    batches: "Sequence[Batch]",
    keys: Sequence[int],
    teacher: "Scorer | None" = None,
) -> dict[str, float]:
    """Adds the gradient of `objective` over the window and returns its `loss` and metrics.

    A window without batches has no gradient, no loss and no metrics. In a distributed run each
    process adds the gradient of its own micro-batches; loss and metrics are those of the window.

    An objective that couples rows is scored over the whole window first, differentiated by its
    statistics, and replayed as the linear objective sum(statistic * derivative), micro-batch by
    micro-batch. Both passes use the same dropout masks, so the derivatives match the replay.

    Raises:
        ValueError: some of the micro-batches have extras that others lack.
    """
    _require_same_extras(batches)
    if objective.coupled and batches:
        return _replayed(policy, objective, batches, keys, teacher)
    total: dict[str, float] = {}
    for index in policy.ranks.mine(len(batches)):
        values = policy.accumulate(objective, batches[index], key=keys[index], teacher=teacher)
        for name, value in values.items():
            total[name] = total.get(name, 0.0) + value
    keep_pace(policy, len(batches), objective.needs, teacher)
    return policy.ranks.total(total)


def _require_same_extras(batches: "Sequence[Batch]") -> None:
    for batch in batches:
        if odd := batch.extras.keys() ^ batches[0].extras.keys():
            raise ValueError(
                f"extras: expected the same in every micro-batch, got {min(odd)!r} in some only"
            )


class _Linear:
    """sum(statistic * its derivative); the derivatives are in the batch."""

    coupled = False
    linear = True

    def __init__(self, needs: "frozenset[Stat]") -> None:
        self.needs = needs

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "LossAndMetrics":
        first, *rest = sorted(self.needs)
        total = xp.sum(stats[first] * batch[f"d_{first}"])
        for stat in rest:
            total = total + xp.sum(stats[stat] * batch[f"d_{stat}"])
        return total, {}


def score_window(
    policy: "Policy",
    objective: "Objective",
    batches: "Sequence[Batch]",
    teacher: "Scorer | None" = None,
) -> dict[str, float]:
    """Returns the `loss` and metrics of the whole window, without dropout and without a gradient.

    They do not depend on how the window is split, whether the objective couples rows or not.

    Raises:
        ValueError: there are no micro-batches, or some have extras that others lack.
    """
    if not batches:
        raise ValueError("window: expected at least one micro-batch, got none")
    _require_same_extras(batches)
    return _differentiated(policy, objective, batches, [None] * len(batches), teacher)[0]


def require_additive(policy: "Policy", objective: "Objective", batches: "Sequence[Batch]") -> None:
    """Checks that an objective that couples no rows gives the same however a window is split.

    It is differentiated by random statistics, which needs no pass of the model.

    Raises:
        GuardError: loss, metrics or derivatives of the parts do not add up to those of the window.
    """
    import numpy as np

    if objective.coupled or len(batches) < 2:
        return
    random = np.random.default_rng(0)
    parts: list[dict[Stat, NDArray[Any]]] = [
        {
            stat: (random.uniform(-3, -0.1, batch.ids_BT.shape) * batch.loss_mask_BT).astype("f4")
            for stat in sorted(objective.needs)
        }
        for batch in batches
    ]
    joined = {stat: _stack([part[stat] for part in parts]) for stat in objective.needs}
    joint, slopes = policy.differentiate(objective, joined, _joined(batches))
    pieces = [
        policy.differentiate(objective, part, _joined([batch]))
        for part, batch in zip(parts, batches, strict=True)
    ]
    for name, value in joint.items():
        # terms of either sign may leave hardly more than the rounding of their sum
        _require_same(name, value, sum(piece[0].get(name, 0.0) for piece in pieces), atol=1e-4)
    for stat, slope in slopes.items():
        cut = _stack([piece[1][stat] for piece in pieces])
        atol = 1e-4 * float(np.abs(slope[np.isfinite(slope)]).max(initial=0.0))
        _require_same(f"the derivative by {stat}", slope, cut, atol=atol)


def _require_same(name: str, joint: Any, parts: Any, *, atol: float) -> None:  # noqa: ANN401
    import numpy as np

    if not np.allclose(joint, parts, rtol=1e-3, atol=atol, equal_nan=True):
        raise GuardError(
            f"the objective depends on how a window is split: {name}: expected the same from the "
            f"window and from its micro-batches together, got {_first(joint)} and {_first(parts)}",
            hint="divide sums by the window's constants, not by those of a batch, or set coupled",
            code="train.not_additive",
        )


def _first(value: Any) -> str:  # noqa: ANN401 - a number or an array
    import numpy as np

    return f"a sum of {float(np.sum(value)):.6g}"


def _differentiated(
    policy: "Policy",
    objective: "Objective",
    batches: "Sequence[Batch]",
    keys: Sequence[int | None],
    teacher: "Scorer | None",
) -> "tuple[dict[str, float], dict[Stat, NDArray[Any]]]":
    needs = objective.needs

    def score(index: int) -> "dict[Stat, NDArray[Any]]":
        return policy.score(batches[index], needs, key=keys[index], teacher=teacher)

    local = scored(policy, policy.ranks, len(batches), score, needs, teacher=teacher, key=keys[0])
    scores = policy.ranks.join(local)
    stats = {stat: _stack([score[stat] for score in scores]) for stat in objective.needs}
    return policy.differentiate(objective, stats, _joined(batches))


def _replayed(
    policy: "Policy",
    objective: "Objective",
    batches: "Sequence[Batch]",
    keys: Sequence[int],
    teacher: "Scorer | None",
) -> dict[str, float]:
    metrics, slopes = _differentiated(policy, objective, batches, keys, teacher)
    linear, added = _Linear(objective.needs), dict[str, float]()
    ends = list(accumulate(len(batch.ids_BT) for batch in batches))
    for index in policy.ranks.mine(len(batches)):
        batch, end = batches[index], ends[index]
        rows, width = batch.ids_BT.shape
        part = {f"d_{s}": slope[end - rows : end, :width] for s, slope in slopes.items()}
        with_slopes = replace(batch, extras={**batch.extras, **part})
        local = policy.accumulate(linear, with_slopes, key=keys[index], teacher=teacher)
        for name in local.keys() - {"loss"}:  # what the engine adds: the router loss
            added[name] = added.get(name, 0.0) + local[name]
    keep_pace(policy, len(batches), linear.needs, teacher)
    for name, value in policy.ranks.total(added).items():
        metrics[name] = metrics.get(name, 0.0) + value
    return metrics


def _stack(arrays: "Sequence[NDArray[Any]]") -> "NDArray[Any]":
    """Concatenates along the rows, padded with zeros to the widest."""
    import numpy as np

    if arrays[0].ndim == 1:
        return np.concatenate(arrays)
    width = max(array.shape[1] for array in arrays)
    return np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in arrays])


def _joined(batches: "Sequence[Batch]") -> dict[str, Any]:
    arrays = {name: _stack([b.extras[name] for b in batches]) for name in batches[0].extras}
    mask = _stack([b.loss_mask_BT for b in batches]).astype("float32")
    lengths = _stack([b.lengths_B for b in batches])
    return {**arrays, "mask": mask, "lengths": lengths, **batches[0].constants}
