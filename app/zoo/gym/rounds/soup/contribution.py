"""What a user of a soup has contributed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue


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
