"""A fine-tune in the factors B of a round's fixed A, by least squares.

For a change D [out, in] it is the B [rank, out] with the smallest |D - B^T A|: (A A^T)^-1 A D^T.
A change that was trained on this A is kept whole; of any other one a random A keeps about the share
rank / in of the squared norm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.tuned.changes import Changes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Projected:
    """What is left of a fine-tune.

    Attributes:
        b: float32 [rank, out] by tensor.
        kept: share of the squared norm of all changes, 0 to 1.
        norm: Euclidean norm of all B.
    """

    b: "Mapping[str, NDArray[np.float32]]"
    kept: float
    norm: float


def project(
    changes: Changes, shapes: Mapping[str, tuple[int, ...]], rank: int, seed: str
) -> Projected:
    """Returns the factors B of a fine-tune; zeros for tensors that it does not change.

    Args:
        changes: the fine-tune.
        shapes: of the round's tensors, by name.
        rank: of all factors.
        seed: of A.

    Raises:
        InputError: a value is not finite.
    """
    import numpy as np

    from zoo.models.fixed_factor import fixed_factor

    found: dict[str, NDArray[np.float32]] = {}
    whole = left = size = 0.0
    for name, (rows, columns) in ((name, shapes[name]) for name in sorted(shapes)):
        if name not in changes.names:
            found[name] = np.zeros((rank, rows), np.float32)
            continue
        A = fixed_factor(seed, name, rank, columns).astype(np.float64)
        b, square = _nearest(changes, name, A)
        found[name] = b.astype(np.float32)
        whole += square
        left += float(np.sum(b * (A @ A.T @ b)))
        size += float(np.square(b).sum())
    return Projected(found, min(1.0, left / whole) if whole else 0.0, size**0.5)


def _nearest(
    changes: Changes, name: str, A: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], float]":
    """Returns B of one tensor, and the squared norm of its change."""
    import numpy as np

    inverse = np.linalg.pinv(A @ A.T, hermitian=True)
    factors = changes.factors(name)
    if factors is None:
        D = changes.change(name).astype(np.float64)
        return inverse @ (A @ D.T), float(np.square(D).sum())
    own, b = (factor.astype(np.float64) for factor in factors)
    square = float(np.sum((own @ own.T) * (b @ b.T)))
    if np.array_equal(own, A):
        return b, square
    return inverse @ ((A @ own.T) @ b), square
