"""A factor that everybody derives from a seed: random signs times one power of two.

All contributors to a private round train B of `W + B A` with the same A, which is not trained
(FFA-LoRA, arXiv:2403.12313), so that a mean of theirs is a mean of B alone. A is here of signs
(Achlioptas, doi:10.1016/S0022-0000(03)00025-4), not normally distributed: a bit each in a file, and
no rounding anywhere. The bits are those of SHAKE-256 (FIPS 202), which every standard library has.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEED = re.compile(r"[0-9a-f]{64}")
_DOMAIN = "zoo-gym fixed factor 1"


def check_seed(seed: object) -> str:
    """Returns a seed of 64 hexadecimal digits.

    Raises:
        InputError: it is none.
    """
    if not isinstance(seed, str) or not _SEED.fullmatch(seed):
        raise InputError(
            f"seed: expected 64 hexadecimal digits in lower case, got {seed!r:.80}",
            code="models.bad_seed",
        )
    return seed


def factor_signs(seed: str, name: str, rank: int, columns: int) -> NDArray[np.uint8]:
    """Returns the signs of a tensor's factor, uint8 [rank, ceil(columns / 8)].

    A bit is 1 for plus, least significant first, and 0 past the row's end: the plane of signs of a
    delta file. The bytes are SHAKE-256 of the domain, the seed and the name, each followed by a
    newline.

    Args:
        seed: 64 hexadecimal digits.
        name: the tensor's in the base.
        rank: rows.
        columns: the tensor's inputs.

    Raises:
        InputError: a seed of another form, a name of several lines.
        ValueError: a rank or number of columns below 1.
    """
    import numpy as np

    check_seed(seed)
    if rank < 1 or columns < 1:
        raise ValueError(f"rank, columns: expected at least 1, got {rank}, {columns}")
    if "\n" in name or not name:
        raise InputError(
            f"tensor {name[:80]!r}: expected a name on one line", code="models.bad_tensor_name"
        )
    width = -(-columns // 8)
    stream = hashlib.shake_256(f"{_DOMAIN}\n{seed}\n{name}\n".encode()).digest(rank * width)
    signs = np.frombuffer(stream, np.uint8).reshape(rank, width).copy()
    if columns % 8:
        signs[:, -1] &= (1 << columns % 8) - 1
    return signs


def factor_scale(columns: int) -> float:
    """Returns the size of every entry: the largest power of two that is at most 1 / sqrt(columns).

    So a row has a norm of at most 1, and above 1/2. It is a float16 up to 2^48 columns.

    >>> factor_scale(16), factor_scale(17)
    (0.25, 0.125)
    """
    exponent = 0
    while 4**exponent < columns:
        exponent += 1
    return float(2.0**-exponent)


def fixed_factor(seed: str, name: str, rank: int, columns: int) -> NDArray[np.float32]:
    """Returns a tensor's factor A, float32 [rank, columns]: the signs times the scale.

    Args:
        seed: 64 hexadecimal digits.
        name: the tensor's in the base.
        rank: rows.
        columns: the tensor's inputs.

    Raises:
        InputError: see `factor_signs`.
    """
    import numpy as np

    signs = factor_signs(seed, name, rank, columns)
    bits = np.unpackbits(signs, axis=1, count=columns, bitorder="little")
    scale = np.float32(factor_scale(columns))
    return np.where(bits == 1, scale, -scale)
