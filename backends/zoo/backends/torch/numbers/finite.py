"""Finds values that are not finite."""

import torch
from torch import Tensor

PIECE_VALUES = 1 << 22
"""The number of values per piece in the search for NaN."""


def first_not_finite(tensor: Tensor) -> int | None:
    """Returns the first index of a non-finite value, searching in pieces to save memory."""
    values = tensor.flatten()
    for start in range(0, len(values), PIECE_VALUES):
        finite = torch.isfinite(values[start : start + PIECE_VALUES])
        if not bool(finite.all()):
            return start + int((~finite).nonzero()[0])
    return None
