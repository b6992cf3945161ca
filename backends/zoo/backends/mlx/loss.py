"""A batch as arrays of MLX, and the derivative of an objective by each statistic.

Legend: B rows, T positions, N scored tokens, D hidden size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from zoo.backends.base import Batch, Objective, Stat
from zoo.backends.mlx.namespace import MlxNamespace

Stats = Mapping[Stat, mx.array]


@dataclass(frozen=True)
class DeviceBatch:
    """A `Batch` on the device, with the arrays for the objective.

    Attributes:
        ids_BT: the token ids.
        places_N: the learned tokens, as indices of the flattened `[B, T]`.
        arrays: the other inputs of the objective.
        temperature: the divisor of the logits.
    """

    ids_BT: mx.array
    places_N: mx.array
    arrays: Mapping[str, Any]
    temperature: float

    def gather(self, hidden_BTD: mx.array) -> mx.array:
        """Returns `[N, D]`: the hidden state before each learned token."""
        return hidden_BTD.reshape(-1, hidden_BTD.shape[-1])[self.places_N - 1]

    def targets_N(self) -> mx.array:
        """Returns the ids of the learned tokens."""
        return self.ids_BT.flatten()[self.places_N]

    def scatter(self, values_N: mx.array) -> mx.array:
        """Returns `[B, T]` with each learned token's value, and zero elsewhere."""
        out: mx.array = mx.zeros((self.ids_BT.size,), dtype=values_N.dtype)
        out = out.at[self.places_N].add(values_N)
        return out.reshape(self.ids_BT.shape)


def to_device(batch: Batch) -> DeviceBatch:
    """Moves a batch; floating extras become float32."""
    mask_BT = batch.loss_mask_BT
    if mask_BT[:, :1].any():
        raise ValueError("loss_mask_BT: position 0 cannot be predicted: expected False, got True")
    arrays: dict[str, Any] = {name: moved(value) for name, value in batch.extras.items()}
    arrays |= {"mask": moved(mask_BT.astype(np.float32)), "lengths": moved(batch.lengths_B)}
    places_N = np.flatnonzero(mask_BT).astype(np.int32)
    ids_BT = mx.array(batch.ids_BT.astype(np.int32))
    return DeviceBatch(
        ids_BT, mx.array(places_N), arrays | dict(batch.constants), batch.temperature
    )


def moved(value: Any) -> Any:  # noqa: ANN401
    """Returns an array of the host on the device, floats as float32; other values as they are."""
    if not isinstance(value, np.ndarray):
        return value
    return mx.array(value.astype(np.float32) if value.dtype.kind == "f" else value)


def differentiate(
    objective: Objective,
    stats: Stats,
    arrays: Mapping[str, Any],
    to_rows: Callable[[mx.array], mx.array] = lambda values: values,
) -> tuple[float, dict[str, float], dict[Stat, mx.array]]:
    """Returns the loss, its metrics, and its derivative by each statistic.

    Args:
        objective: the objective to differentiate.
        stats: the statistics, in any shape.
        arrays: the other inputs of the objective.
        to_rows: converts a statistic to the shape that the objective expects, `[B, T]`.

    Raises:
        ValueError: a metric has the name of the loss.
    """
    order = sorted(stats)

    def traced(values: list[mx.array]) -> tuple[mx.array, dict[str, mx.array]]:
        placed = {stat: to_rows(value) for stat, value in zip(order, values, strict=True)}
        loss, metrics = objective(MlxNamespace(), placed, arrays)
        if "loss" in metrics:
            raise ValueError("metrics: expected any name but that of the loss, got 'loss'")
        return loss, {name: mx.array(value) for name, value in metrics.items()}

    slopes_of = mx.value_and_grad(traced)
    (loss, metrics), slopes = slopes_of([stats[stat] for stat in order])
    mx.eval(loss, metrics, slopes)
    figures = {name: float(value.item()) for name, value in metrics.items()}
    return float(loss.item()), figures, dict(zip(order, slopes, strict=True))
