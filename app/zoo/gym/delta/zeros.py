"""Counts the weights that a fine-tune left unchanged, from the masks in its delta."""

from dataclasses import dataclass

from zoo.gym.delta.file.reader import Delta, read_part
from zoo.gym.delta.file.terms import SignTerm, rows_and_columns

FEW = 0.3
"""Share of changed weights below which a sparse delta, which is lossless, is suggested."""

_BYTES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Masked:
    """The tensors of a delta that keep unchanged weights by a mask.

    Attributes:
        tensors: their number.
        changed: the share of their weights that the fine-tune changed.
    """

    tensors: int
    changed: float


def masked(delta: Delta) -> Masked | None:
    """Counts the weights that the masks of a delta mark as changed; None without masks."""
    import numpy as np

    tensors = ones = values = 0
    for tensor in delta.header.tensors:
        if any(isinstance(term, SignTerm) and term.zero == "mask" for term in tensor.terms):
            plane = read_part(delta, f"{tensor.name}.mask").reshape(-1)
            for start in range(0, plane.size, _BYTES_AT_ONCE):
                ones += int(np.unpackbits(plane[start : start + _BYTES_AT_ONCE]).sum())
            rows, columns = rows_and_columns(tensor.shape)
            tensors, values = tensors + 1, values + rows * columns
    return Masked(tensors, ones / values) if tensors else None
