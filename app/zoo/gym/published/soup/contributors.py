"""Who contributes to a soup, and what."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pydantic import JsonValue

from zoo.gym.arguments import number_of, text_of
from zoo.gym.errors import InputError
from zoo.gym.rounds.payouts.points import share_out
from zoo.gym.rounds.payouts.reputation import Reputation


@dataclass(frozen=True)
class Contribution:
    """What a user has contributed.

    Attributes:
        user: the user's name.
        file: the coded change: a delta, or the whole numbers of a private soup.
        digest: of the file.
        place: how many contributed before; of copies the first counts.
        examples: how many examples it was trained on, by the user's word; None if not said.
        quality: 0 to 1, by the validator; None without one.
        metadata: what the user said of it.
    """

    user: str
    file: Path
    digest: str
    place: int
    examples: int | None
    quality: float | None
    metadata: Mapping[str, JsonValue]


class ContributorProfile:
    """A contributor's reputation, which rises slowly and falls fast.

    Args:
        user_id: the contributor's name.

    Raises:
        InputError: it is no text.
    """

    def __init__(self, user_id: str) -> None:
        self.user_id = text_of("user_id", user_id)
        self.reputation = Reputation()

    def update_reputation(self, quality_score: float) -> float:
        """Takes the quality of one more contribution into account, and returns the reputation.

        Args:
            quality_score: 0 to 1.

        Raises:
            InputError: the quality is not in that range.
        """
        self.reputation = self.reputation.after(number_of("quality_score", quality_score))
        return self.reputation.value

    def get_weight(self) -> float:
        """Returns the weight of the contributor in a weighted mean, 0 to 1."""
        return self.reputation.value


def published_points(
    qualities: Mapping[str, float],
    pool: int,
    *,
    quality_weight: float = 0.7,
    participation_weight: float = 0.3,
) -> dict[str, int]:
    """Returns each contributor's points: whole ones, which add up to the pool.

    The shares are `quality_weight * quality / sum of qualities + participation_weight / n`.

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
