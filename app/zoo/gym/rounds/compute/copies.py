"""Refuses contributions by their exact Gram matrix: copies of earlier ones, and those of no size.

Signs that agree in 95 % of the columns are a copy (honest contributions of one base agreed in 70 to
79 %): a cosine of .90. Plain values whose signs would agree so often have a cosine of .988 if they
are normally distributed: cos(pi * .05). The earlier commitment counts.
"""

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from zoo.gym.rounds.protocol.manifest import Form
from zoo.gym.rounds.rules.aggregate import gram_of
from zoo.gym.rounds.rules.outliers import TOO_SHORT, undersized

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAME: dict[Form, Fraction] = {
    "signs": Fraction(90, 100),
    "lowrank": Fraction(988, 1000),
    "float": Fraction(988, 1000),
}
"""The cosine from which on a contribution is a copy."""

_NO_CHANGE = "expected a change of the base, got none"


def without_copies(
    gram: "NDArray[np.uint64]", positions: Sequence[int], form: Form, names: Sequence[str]
) -> "tuple[dict[int, str], NDArray[np.uint64]]":
    """Returns why contributions do not count, by row, and the scalar products of the others.

    One that changes nothing, or nearly nothing, would earn without having worked.

    Args:
        gram: exact scalar products, [n, n, 2], see `zoo.core.gram`.
        positions: of each contribution's commitment in the log.
        form: of the contributions.
        names: of their contributors, for the reasons.
    """
    refused = dict.fromkeys(undersized(gram), TOO_SHORT)
    refused |= {row: _NO_CHANGE for row in range(len(gram)) if not gram[row, row].any()}
    for row, original in copies(gram, positions, form, refused).items():
        refused[row] = f"a copy of the contribution of {names[original]}"
    return refused, gram_of(gram, [row for row in range(len(gram)) if row not in refused])


def copies(
    gram: "NDArray[np.uint64]", positions: Sequence[int], form: Form, but: Collection[int] = ()
) -> dict[int, int]:
    """Returns which contribution each copy is one of.

    Args:
        gram: exact scalar products, [n, n, 2], see `zoo.core.gram`.
        positions: of each contribution's commitment in the log.
        form: of the contributions.
        but: contributions that are refused anyway, which nobody is a copy of.
    """
    from zoo.core.gram import exact_products

    products = exact_products(gram)
    least = SAME[form] ** 2
    found: dict[int, int] = {}
    originals: list[int] = []
    rows = (row for row in range(len(positions)) if row not in but)
    for row in sorted(rows, key=positions.__getitem__):
        match = next((one for one in originals if _is_copy(products, row, one, least)), None)
        if match is None:
            originals.append(row)
        else:
            found[row] = match
    return found


def _is_copy(products: list[list[int]], row: int, other: int, least: Fraction) -> bool:
    product, norms = products[row][other], products[row][row] * products[other][other]
    if product <= 0 or not norms:
        return False
    return product * product * least.denominator >= least.numerator * norms
