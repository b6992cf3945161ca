"""One window of micro-batches: the same gradient however the window is cut.

Legend: B rows, T positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Array, ArrayNamespace, Batch, Objective, Policy, Stat


def accumulate_window(
    policy: "Policy", objective: "Objective", batches: "Sequence[Batch]", keys: Sequence[int]
) -> float:
    """Adds the gradient of `objective` over the window and returns the window's loss.

    An objective that couples rows is scored over the whole window first, differentiated by its
    statistics, and replayed as the linear objective sum(statistic * derivative), micro-batch by
    micro-batch. Both passes draw the same dropout: the derivative belongs to what is replayed.
    """
    if objective.coupled:
        return _replayed(policy, objective, batches, keys)
    losses = [
        policy.accumulate(objective, batch, key=key)["loss"]
        for batch, key in zip(batches, keys, strict=True)
    ]
    return sum(losses)


class _Linear:
    """sum(statistic * its derivative), the derivatives handed over with the batch."""

    coupled = False

    def __init__(self, needs: "frozenset[Stat]") -> None:
        self.needs = needs

    def __call__(
        self, xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
    ) -> "Array":
        first, *others = sorted(self.needs)
        total = xp.sum(stats[first] * batch[f"d_{first}"])
        for stat in others:
            total = total + xp.sum(stats[stat] * batch[f"d_{stat}"])
        return total


def _replayed(
    policy: "Policy", objective: "Objective", batches: "Sequence[Batch]", keys: Sequence[int]
) -> float:
    scores = [
        policy.score(batch, objective.needs, key=key)
        for batch, key in zip(batches, keys, strict=True)
    ]
    whole = {stat: _stack([score[stat] for score in scores]) for stat in objective.needs}
    loss, slopes = _differentiate(objective, whole, _joined(batches))
    linear, row = _Linear(objective.needs), 0
    for batch, key in zip(batches, keys, strict=True):
        rows, width = batch.ids_BT.shape
        part = {f"d_{s}": slope[row : row + rows, :width] for s, slope in slopes.items()}
        policy.accumulate(linear, replace(batch, extras={**batch.extras, **part}), key=key)
        row += rows
    return loss


def _stack(arrays: "Sequence[NDArray[Any]]") -> "NDArray[Any]":
    """Joins along the rows, padded with zeros to the widest."""
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


def _differentiate(
    objective: "Objective", stats: "Mapping[Stat, NDArray[np.float32]]", arrays: Mapping[str, Any]
) -> "tuple[float, dict[Stat, NDArray[np.float32]]]":
    """Differentiates on the host: a few numbers per token, whatever the backend."""
    import numpy as np
    import torch

    from zoo.backends.torch.namespace import TorchNamespace

    leaves = {s: torch.from_numpy(v.astype(np.float32)).requires_grad_() for s, v in stats.items()}
    moved = {k: torch.from_numpy(v) if hasattr(v, "dtype") else v for k, v in arrays.items()}
    loss = objective(TorchNamespace(), leaves, moved)
    slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return float(loss.detach()), {
        stat: (torch.zeros_like(leaf) if slope is None else slope).numpy()
        for (stat, leaf), slope in zip(leaves.items(), slopes, strict=True)
    }
