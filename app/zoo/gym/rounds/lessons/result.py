"""Computes which lessons of a round are kept, and who gets how many points: the same for everybody.

A lesson is kept at `least` keys of role gate that measured it, with a median effect above 0 and no
interval below 0 as a whole (`experience.sharing.keep`); of a key that contributes lessons itself
such an interval counts only beside that of another key. Of those the ones with the largest effects
are the result, a library.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from zoo.gym.errors import InputError
from zoo.gym.experience.library.file import write_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import MOST_TOKENS, Library
from zoo.gym.experience.sharing.keep import Judged, judge
from zoo.gym.experience.sharing.measurement import Measurement
from zoo.gym.rounds.compute.collect import TooFewError
from zoo.gym.rounds.compute.report import report_body
from zoo.gym.rounds.lessons.candidates import Candidate, Candidates, candidates_of
from zoo.gym.rounds.lessons.terms import EVIDENCE, terms_of
from zoo.gym.rounds.protocol.state import State
from zoo.gym.rounds.rewards.points import share_out
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, describe
from zoo.gym.signing import PublicKey, canonical

BY_EFFECT = "effect"
"""How points are shared out: by the sum of the effects of what is kept of a contributor."""

NOTHING_KEPT = "no lesson is kept"

Records = Sequence[tuple[PublicKey, Measurement]]


@dataclass(frozen=True)
class Combined:
    """A result that was computed on this machine.

    Attributes:
        judged: what is known of each lesson, in the order of the commitments.
        file: the library of those that are kept; None if none is.
        report: what it was made of; empty if nothing is kept.
        refused: why contributions do not count.
        late: lessons that are kept although keys of role gate have not measured them, by key.
    """

    judged: Sequence[tuple[Candidate, Judged]]
    file: Path | None
    report: bytes
    refused: Mapping[PublicKey, str]
    late: Mapping[PublicKey, Sequence[Item]] = field(default_factory=dict[PublicKey, list[Item]])

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the report; none if nothing is kept."""
        found: dict[str, Any] = json.loads(self.report or "{}")
        return found

    @property
    def digest(self) -> str | None:
        """The digest of the library; None if nothing is kept."""
        return str(self.fields["result"]["digest"]) if self.file else None

    @property
    def kept(self) -> int:
        """How many lessons are kept."""
        return sum(one.kept for _, one in self.judged)


def combine(state: State, storage: Storage, folder: Path) -> Combined:
    """Computes the result of a round of lessons whose reveals are closed.

    Args:
        state: of the round.
        storage: where the chunks are.
        folder: of the round on this machine; keeps what was fetched, and the result.

    Raises:
        InputError: fewer contributions count than the quorum.
        StorageError: a file cannot be read or written.
    """
    found = candidates_of(state, storage, folder)
    counted, quorum = len(found.contributors), state.manifest.quorum
    if counted < quorum:
        raise TooFewError(state.manifest, counted, found.refused)
    judged = judged_in(state, found)
    kept = [replace(one.item, author=str(of.contributor)) for of, one in judged if one.kept]
    if not kept:
        return Combined(judged, None, b"", found.refused)
    file = folder / "result.json"
    evidence: dict[str, object] = {"by": "round", "round": state.id}
    write_library(file, Library(tuple(kept), state.manifest.base.model, evidence=evidence))
    report = _report(state, found, judged, describe(file)[0])
    late = unmeasured(state, (of for of, one in judged if one.kept))
    return Combined(judged, file, report, found.refused, late)


def unmeasured(state: State, lessons: Iterable[Candidate]) -> dict[PublicKey, list[Item]]:
    """Returns what keys of role gate have not measured of some lessons, which are not their own.

    Args:
        state: of the round.
        lessons: those that count here.
    """
    given = list(lessons)
    found: dict[PublicKey, list[Item]] = {}
    for key in sorted(state.manifest.keys_of("gate")):
        texts = {one.text for one in state.measured.lessons.get(key, {}).values()}
        left = [of.item for of in given if key not in of.authors and of.item.text not in texts]
        if left:
            found[key] = left
    return found


def judged_in(
    state: State, found: Candidates, keys: Collection[PublicKey] | None = None
) -> list[tuple[Candidate, Judged]]:
    """Returns what the records of a round say of each lesson, and which ones fit into a library.

    Args:
        state: of the round.
        found: its lessons.
        keys: whose records count, and then all that they keep; by default those of all keys of
            role gate.
    """
    lessons, records = terms_of(state.manifest), _by_text(state)
    counting = state.manifest.keys_of("gate") if keys is None else keys
    names = {key: str(key) for key in counting}
    judged: list[tuple[Candidate, Judged]] = []
    for one in found.lessons:
        said = records.get(one.item.text, ())
        [known] = judge(
            [one.item],
            said,
            names,
            lessons.least,
            clear=lessons.clear,
            apart=one.authors,
            rivals=found.contributors,
        )
        if one.same is not None:
            known = Judged(one.item, (), None, None, one.copied)
        judged.append((one, known))
    if keys is not None:
        return judged
    crowded = _crowded(judged, lessons.items)
    return [
        (of, replace(one, item=of.item, why=crowded[of.item.id]))
        if of.item.id in crowded and one.kept
        else (of, one)
        for of, one in judged
    ]


def _by_text(state: State) -> dict[str, list[tuple[PublicKey, Measurement]]]:
    found: dict[str, list[tuple[PublicKey, Measurement]]] = defaultdict(list)
    for key, lessons in state.measured.lessons.items():
        for one in lessons.values():
            figures = (one.model, one.tasks, one.effect, one.low, one.high)
            found[one.text].append((key, Measurement(one.text, *figures)))
    return found


def _crowded(judged: Sequence[tuple[Candidate, Judged]], most: int) -> dict[str, str]:
    """Returns why lessons have no place in the result, by id: it takes the largest effects."""
    best = sorted(
        (one for _, one in judged if one.kept), key=lambda one: (-(one.effect or 0.0), one.item.id)
    )
    taken: list[Item] = []
    why: dict[str, str] = {}
    for one in best:
        if len(taken) == most:
            why[one.item.id] = f"the result has {most} lessons with larger effects"
        elif not _fits([*taken, one.item]):
            why[one.item.id] = f"the result has {MOST_TOKENS:,} tokens of lessons at most"
        else:
            taken.append(one.item)
    return why


def _fits(items: Sequence[Item]) -> bool:
    try:
        Library(tuple(items))
    except InputError:
        return False
    return True


def _report(
    state: State,
    found: Candidates,
    judged: Sequence[tuple[Candidate, Judged]],
    stored: StoredFile,
) -> bytes:
    counts = {key: len(one) for key, one in state.measured.lessons.items()}
    body = report_body(
        state.id,
        {"method": EVIDENCE, **vars(terms_of(state.manifest))},
        [(key, state.reveals[key].digest) for key in found.contributors],
        found.refused,
        (BY_EFFECT, points_of(_effects(judged), state.manifest.pool)),
        stored,
        gates=[
            {"key": str(key), "measured": counts.get(key, 0)}
            for key in sorted(state.manifest.keys_of("gate"))
        ],
        lessons=[_entry(of, one) for of, one in judged],
    )
    return canonical(body)


def _entry(of: Candidate, one: Judged) -> dict[str, object]:
    return {
        "item": of.item.id,
        "text": of.item.text,
        "contributor": str(of.contributor),
        "signers": list(one.signers),
        "effect": one.effect,
        "low": one.low,
        "why": one.why,
    }


def _effects(judged: Sequence[tuple[Candidate, Judged]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for of, one in judged:
        if one.kept and one.effect is not None:
            found[str(of.contributor)].append(one.effect)
    return found


def points_of(effects: Mapping[str, Sequence[float]], pool: int) -> dict[str, int]:
    """Shares a pool out by the sums of effects, exactly.

    Args:
        effects: of what is kept of each contributor.
        pool: points.
    """
    worth = {key: sum(map(Fraction, some), Fraction()) for key, some in effects.items()}
    return share_out(worth, pool)
