"""Shares a pool of points out by value, exactly.

Each gets `floor(pool * value / sum)`; the points that are left go to the largest remainders, of
equal ones to the earlier name. Values are compared as exact fractions, so that the result does not
depend on rounding.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import isfinite

from zoo.gym.errors import InputError


def share_out(values: Mapping[str, float | int | Fraction], pool: int) -> dict[str, int]:
    """Returns each name's points, which add up to the pool.

    Negative values count as nothing. If no value is above 0 nobody gets a point: there is nothing
    that the pool could pay for.

    Args:
        values: what each is worth, in any unit.
        pool: points.

    Raises:
        InputError: a value is not finite, or the pool negative.
    """
    if pool < 0:
        raise InputError(f"pool: expected at least 0 points, got {pool}")
    worth: dict[str, Fraction] = {}
    for name, value in values.items():
        if isinstance(value, float) and not isfinite(value):
            raise InputError(f"value of {name}: expected a finite number, got {value}")
        worth[name] = max(Fraction(0), Fraction(value))
    total = sum(worth.values())
    if not total:
        return dict.fromkeys(worth, 0)
    exact = {name: pool * value / total for name, value in worth.items()}
    points = {name: int(share) for name, share in exact.items()}
    left = pool - sum(points.values())
    by_remainder = sorted(exact, key=lambda name: (points[name] - exact[name], name))
    for name in by_remainder[:left]:
        points[name] += 1
    return points
