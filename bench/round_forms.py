"""Contributions of rounds made of plain rows, for benchmarks and tests."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from zoo.core import pack_signs
from zoo.gym.rounds.encodings import Contributions, Floats, Signs, SignTensor


def in_form(form: str, rows: Mapping[str, NDArray[np.float32]]) -> Contributions:
    """Returns the rows of each tensor, [n, columns], as n contributions: `float` or `signs`."""
    if form == "signs":
        return Signs({name: sign_tensor(name, each) for name, each in rows.items()})
    return Floats({name: list(each) for name, each in rows.items()})


def sign_tensor(name: str, rows: NDArray[np.float32]) -> SignTensor:
    """Returns one tensor's differences as signs; a round refuses too many zeros first.

    Args:
        name: the tensor's, for messages.
        rows: [n, columns], float32.

    Raises:
        InputError: a difference that is not finite.
    """
    bits, scales = pack_signs(np.zeros_like(rows), rows, scale="row", name=name)
    return SignTensor(list(bits), scales, (1, rows.shape[1]))
