"""Makes the manifest of a new round of lessons from a few choices."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zoo.gym.rounds.lessons.terms import EVIDENCE, MOST_CANDIDATES, NO_BASE, Lessons
from zoo.gym.rounds.life.terms import DAY_S, MOST, deadlines, round_keys
from zoo.gym.rounds.protocol.manifest import FORMAT, Manifest, Role, parse_manifest
from zoo.gym.signing import PublicKey

FILE_BYTES = 200_000
"""The largest contribution: 48 lessons with licences and parents have less."""


@dataclass(frozen=True)
class LessonTerms:
    """The choices of the maker of a round of lessons.

    Attributes:
        name: for people.
        model: the model that lessons are for.
        lessons: which are kept.
        gates: the keys that measure.
        quorum: fewer contributions make it void.
        most: the most contributors; as many as can be measured if None.
        commit_s: from now to the deadline of commitments, in seconds.
        reveal_s: from then to that of reveals.
        pool: points to share out.
        witnesses: keys that sign the log's heads.
    """

    name: str
    model: str
    lessons: Lessons
    gates: tuple[PublicKey, ...]
    quorum: int = 10
    most: int | None = None
    commit_s: int = 7 * DAY_S
    reveal_s: int = 2 * DAY_S
    pool: int = 1000
    witnesses: tuple[PublicKey, ...] = ()


def lessons_manifest(terms: LessonTerms, key: PublicKey, now: datetime) -> Manifest:
    """Returns the manifest of a round of lessons.

    Args:
        terms: what the maker chose.
        key: of the maker, who writes the log.
        now: the time from which the deadlines are counted.

    Raises:
        InputError: the terms contradict each other.
    """
    keys: dict[Role, Sequence[PublicKey]] = {
        "log": [key],
        "gate": terms.gates,
        "witness": terms.witnesses,
    }
    most = min(MOST, MOST_CANDIDATES // terms.lessons.most) if terms.most is None else terms.most
    return parse_manifest(
        {
            "format": FORMAT,
            "name": terms.name,
            "kind": "experience",
            "base": {"identity": NO_BASE, "model": terms.model, "revision": ""},
            "tensors": [],
            "form": "lessons",
            "caps": {"file_bytes": FILE_BYTES, "rank": 1, "value": 1.0},
            "method": EVIDENCE,
            "f": None,
            "quorum": terms.quorum,
            "most": most,
            "deadlines": deadlines(now, terms.commit_s, terms.reveal_s),
            "evaluation": None,
            "refit": None,
            "pool": terms.pool,
            "newcomers": None,
            "previous": None,
            "privacy": None,
            "lessons": terms.lessons.model_dump(mode="json"),
            "keys": round_keys(keys, now, terms.commit_s + terms.reveal_s),
        }
    )
