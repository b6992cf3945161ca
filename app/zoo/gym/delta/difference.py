"""What a delta file adds to a tensor of its base."""

from typing import TYPE_CHECKING

from zoo.gym.delta.codecs.tensor import decode_rows
from zoo.gym.delta.file.reader import Delta, tensor_parts
from zoo.gym.delta.file.terms import TensorTerms, rows_and_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def difference(
    delta: Delta,
    tensor: TensorTerms,
    *,
    scaled: float = 1.0,
    base: "NDArray[np.float32] | None" = None,
) -> "NDArray[np.float32]":
    """Returns what the delta adds to a tensor, float32 in the tensor's shape.

    Args:
        delta: the file.
        tensor: one of `delta.header.tensors`.
        scaled: what the whole difference is multiplied by, in float32.
        base: the base's tensor; only a sparse term, which holds the fine-tune's own values, asks
            for it.

    Raises:
        ValueError: a sparse term without the base.
    """
    import numpy as np

    rows, columns = rows_and_columns(tensor.shape)
    matrix = None if base is None else base.reshape(rows, columns)
    total = decode_rows(tensor, tensor_parts(delta, tensor), slice(0, rows), matrix)
    total = total.reshape(tensor.shape)
    return total if scaled == 1.0 else total * np.float32(scaled)
