"""Refuses a contribution whose exact scalar products with others would be none, or stop a round.

Products are whole numbers of 2^-80 below 2^40. Those of factors are rounded to units of float64:
where factors cancel out, what is left of them is rounding, and no measure of a copy.
"""

from typing import TYPE_CHECKING

from zoo.gym.delta.file.reader import Delta
from zoo.gym.errors import InputError
from zoo.gym.rounds.contribution.views import views_of
from zoo.gym.rounds.forms.lowrank import Factors, LowRank
from zoo.gym.rounds.protocol.manifest import Coding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CANCEL_BITS = 20
"""The squared norm of factors that are multiplied out is at least 2^-20 of that of their pairs."""


def check_size(delta: Delta, manifest: Coding) -> None:
    """Refuses a change that is too long, or factors that cancel out.

    Raises:
        InputError: see above.
    """
    view = views_of([delta], manifest)
    try:
        norm = _norm(view.gram())
    except InputError as error:
        raise InputError(
            "expected a squared norm below 2^40, got more", hint=error.message
        ) from None
    if isinstance(view, LowRank):
        pairs = sum(_pairs(factors) for factors in view.tensors.values())
        if norm << _CANCEL_BITS < pairs:
            raise InputError("expected factors of a change, got some that cancel out")


def _pairs(factors: Factors) -> int:
    """Returns the sum of the squared norms of the products of each row of A with its row of B."""
    from zoo.core.gram import lowrank_gram

    (a,), (b,) = factors.a, factors.b
    return sum(_norm(lowrank_gram([a[row : row + 1]], [b[row : row + 1]])) for row in range(len(a)))


def _norm(gram: "NDArray[np.uint64]") -> int:
    from zoo.core.gram import exact_products

    return exact_products(gram)[0][0]
