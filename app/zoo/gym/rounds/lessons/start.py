"""Makes the manifest of a new round of lessons from a few choices."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from zoo.gym.rounds.lessons.terms import EVIDENCE, MOST_CANDIDATES, NO_BASE, Lessons
from zoo.gym.rounds.life.terms import MOST, Common
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.signing import PublicKey

FILE_BYTES = 200_000
"""The largest contribution: 48 lessons with licences and parents have less."""


def lessons_manifest(
    common: Common,
    model: str,
    lessons: Lessons,
    gates: Sequence[PublicKey],
    key: PublicKey,
    now: datetime,
) -> Manifest:
    """Returns the manifest of a round of lessons.

    Args:
        common: what the maker chose; without a number of contributors as many as can be measured.
        model: the model that lessons are for.
        lessons: which are kept.
        gates: the keys that measure.
        key: of the maker, who writes the log.
        now: the time from which the deadlines are counted.

    Raises:
        InputError: the terms contradict each other.
    """
    if common.most is None:
        common = replace(common, most=min(MOST, MOST_CANDIDATES // lessons.most))
    return common.manifest(
        key,
        gates,
        now,
        kind="experience",
        base={"identity": NO_BASE, "model": model, "revision": ""},
        tensors=[],
        form="lessons",
        caps={"file_bytes": FILE_BYTES, "rank": 1, "value": 1.0},
        method=EVIDENCE,
        lessons=lessons.model_dump(mode="json"),
    )
