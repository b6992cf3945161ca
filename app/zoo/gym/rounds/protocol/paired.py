"""Losses of two models on the same rows, and the one-sided 95 % bound of their difference.

The bound decides what counts, and must be the same everywhere: it uses sums, products, quotients
and one square root, which IEEE 754 rounds correctly. Student's quantile is the Cornish-Fisher
expansion to the fourth order (Abramowitz and Stegun, 26.7.5): from 10 rows on it is right to 1e-4.
"""

from math import fsum, isfinite, sqrt
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

FEWEST_ROWS = 10
"""Fewer rows decide nothing."""

_NORMAL = 1.6448536269514722


def _finite(value: float) -> float:
    if not isfinite(value):
        raise ValueError("expected a finite number")
    return value


Finite = Annotated[float, AfterValidator(_finite)]


class Paired(BaseModel):
    """What a change adds to the loss of each row, in nats a token: negative is better."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rows: int = Field(ge=FEWEST_ROWS, le=10**9)
    mean: Finite
    deviation: Annotated[Finite, Field(ge=0)]

    @property
    def bound(self) -> float:
        """The one-sided 95 % upper bound of the mean."""
        return self.mean + student_95(self.rows - 1) * self.deviation / sqrt(self.rows)


def below(added: float) -> str:
    """Returns what a change adds to a loss in words: a loss is never negative, a difference is.

    >>> below(-8.09), below(0.5)
    ('8.0900 nats below', '0.5000 nats above')
    """
    return f"{abs(added):.4f} nats {'above' if added > 0 else 'below'}"


def paired(before: list[float], after: list[float]) -> Paired:
    """Returns what a change adds.

    Args:
        before: the loss of each row, at least `FEWEST_ROWS`.
        after: of the same rows.
    """
    added = [new - old for old, new in zip(before, after, strict=True)]
    mean = fsum(added) / len(added)
    squares = fsum((one - mean) * (one - mean) for one in added)
    return Paired(rows=len(added), mean=mean, deviation=sqrt(squares / (len(added) - 1)))


def student_95(degrees: int) -> float:
    """Returns the 95 % quantile of Student's t.

    >>> round(student_95(99), 3)
    1.66
    """
    z, v = _NORMAL, float(degrees)
    q = z * z
    first = z * (q + 1) / 4
    second = z * ((5 * q + 16) * q + 3) / 96
    third = z * (((3 * q + 19) * q + 17) * q - 15) / 384
    fourth = z * ((((79 * q + 776) * q + 1482) * q - 1920) * q - 945) / 92160
    return z + (first + (second + (third + fourth / v) / v) / v) / v
