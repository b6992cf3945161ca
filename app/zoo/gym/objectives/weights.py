"""What the losses of rows are multiplied by: the weights that the data gives them.

A mean divides by the number of rows, pairs or tokens, not by the sum of their weights: a row of
weight 2 pulls like two rows, whatever is beside it. Metrics other than the loss are not weighted.

Legend: B rows, P pairs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo.gym.data.units import WEIGHT

if TYPE_CHECKING:
    from zoo.backends.base import Array


def row_weights(batch: "Mapping[str, Array]") -> "Array | float":
    """Returns the weight of each row, `[B]`; 1 in a batch without weights."""
    return batch.get(WEIGHT, 1.0)


def pair_weights(batch: "Mapping[str, Array]") -> "Array | float":
    """Returns the weight of each pair, `[P]`; 1 in a batch without weights."""
    return batch[WEIGHT][0::2] if WEIGHT in batch else 1.0


def token_weights(batch: "Mapping[str, Array]") -> "Array | float":
    """Returns the weight of the tokens of each row, `[B, 1]`; 1 in a batch without weights."""
    return batch[WEIGHT][:, None] if WEIGHT in batch else 1.0
