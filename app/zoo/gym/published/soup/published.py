"""The published sharing of a pool: by quality and by participation.

The shares are `quality_weight * quality / sum of qualities + participation_weight / n`; points are
whole and add up to the pool (`share_out`).
"""

from collections.abc import Mapping
from fractions import Fraction

from zoo.gym.errors import InputError
from zoo.gym.rounds.payouts.points import share_out


def published_points(
    qualities: Mapping[str, float],
    pool: int,
    *,
    quality_weight: float = 0.7,
    participation_weight: float = 0.3,
) -> dict[str, int]:
    """Returns each contributor's points.

    Args:
        qualities: of each contribution that counts, 0 to 1.
        pool: points to share out.
        quality_weight: the part of the pool that follows quality.
        participation_weight: the part that is divided equally.

    Raises:
        InputError: a quality is not in 0 to 1.
    """
    for name, quality in qualities.items():
        if not 0 <= quality <= 1:
            raise InputError(
                f"quality of {name}: expected 0 to 1, got {quality}", code="published.bad_quality"
            )
    total = sum(Fraction(quality) for quality in qualities.values())
    equal = Fraction(participation_weight) / len(qualities) if qualities else Fraction(0)
    shares = {
        name: equal + (Fraction(quality_weight) * Fraction(quality) / total if total else 0)
        for name, quality in qualities.items()
    }
    return share_out(shares, pool)
