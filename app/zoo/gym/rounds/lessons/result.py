"""Computes which lessons of a round are kept and who gets how many points, and publishes that.

A lesson is kept at `least` keys of role gate that measured it, with a median effect above 0 and no
interval below 0 as a whole (`experience.sharing.keep`); of a key that contributes lessons itself
such an interval counts only beside that of another key. Of those the ones with the largest effects
are the result, a library. A round that keeps none is void, and says so in its log.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from zoo.gym.humanize import counted
from zoo.gym.rounds.compute.collect import TooFewError
from zoo.gym.rounds.compute.publish import (
    refusals_of,
    refuse_other_result,
    result_entry,
    voiding,
    work_folder,
)
from zoo.gym.rounds.compute.result import report_body, rewards_body, stored_file
from zoo.gym.rounds.compute.verify import Check, compared, made, published_report
from zoo.gym.rounds.lessons.contribution import Candidate, Candidates, candidates_of
from zoo.gym.rounds.payouts.points import share_out
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.lessons import EVIDENCE, terms_of
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.session.opening import Opened
from zoo.gym.rounds.session.writing import writer_of
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import StoredFile, describe, fetch, store_all
from zoo.gym.signing import OwnKey, PublicKey, canonical

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
    """Returns what keys of role gate have not measured of some lessons, which are not their own."""
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
        rewards_body(BY_EFFECT, points_of(_effects(judged), state.manifest.pool)),
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
    """Shares a pool out by the sums of effects, exactly."""
    worth = {key: sum(map(Fraction, some), Fraction()) for key, some in effects.items()}
    return share_out(worth, pool)


def publish_lessons(
    storage: Storage, key: OwnKey, *, force: bool = False, void: bool = False
) -> Combined:
    """Computes the result of a round of lessons and publishes it, or computes it again.

    Measurements in the inbox are added first. If no lesson is kept, the round is void.

    Args:
        force: publish, or make the round void, although keys have not measured all that decides.
        void: make the round void if fewer contributions count than the quorum.

    Raises:
        GymError: too few contributions count: the round is void.
        InputError: too few contributions count, too few keys have measured, others could still
            measure what decides, or the result that is published differs.
        NotAvailableError: the round is in another phase.
        StorageError: a file cannot be read or written; no result is in the log.
    """
    with writer_of(storage, key) as append:
        if append.state.phase is Phase.COMPUTE:
            append.take()
        state = append.state
        state.expect_compute(Phase.PUBLISHED)
        with voiding(append, key, agreed=void):  # first: of too few nothing may be measurable
            found = combine(state, storage, work_folder(state.id))
        _refuse_unmeasured(state)
        if state.phase is Phase.PUBLISHED:
            refuse_other_result(state, found.digest)
            # what was lost since is stored again
            store_all([found.file], [found.report], storage)
            return found
        if not force:
            _refuse_early(state, found)
        refusals = refusals_of(found.refused, state, key)
        if found.digest is None:
            append.add(refusals)
            append(objects.VOID, reason=NOTHING_KEPT)
            return found
        store_all([found.file], [found.report], storage)
        append.add([*refusals, result_entry(state, key, found.digest, found.report)])
        return found


def _refuse_unmeasured(state: State) -> None:
    """Refuses a round of which too few keys measured anything: it waits, and is not void."""
    least, found = terms_of(state.manifest).least, len(state.measured.lessons)
    if found < least:
        raise InputError(
            f"round {state.manifest.name}: expected measurements by "
            f"{counted(least, 'key')}, got {found}",
            hint=f"keys of role gate make them: {state.manifest.command('measure')}",
            code="rounds.few_measured",
        )


def _refuse_early(state: State, found: Combined) -> None:
    """Refuses to end a round while keys of role gate have not measured what decides.

    That is each lesson that would be kept; if none would be, each lesson.
    """
    first = [of for of, _ in found.judged if of.same is None]
    late = found.late if found.kept else unmeasured(state, first)
    if not late:
        return
    keys = f"{counted(len(late), 'key')} of role gate {'has' if len(late) == 1 else 'have'}"
    forced = state.manifest.command("aggregate", "--force")
    if found.kept:
        lessons = {item.id for left in late.values() for item in left}
        said = f"{counted(len(lessons), 'lesson')} would be kept that {keys} not measured"
        hint = f"wait for them, or publish what was found without them: {forced}"
    else:
        said = f"{NOTHING_KEPT}, and {keys} not measured all of {len(first)}"
        hint = f"wait for them, or make it void: {forced}"
    raise InputError(f"round {state.manifest.name}: {said}", hint=hint, code="rounds.unmeasured")


PUBLISHED = "published.json"
"""The published library, in the folder of a round."""

_TITLES = {
    "rule": "rule",
    "contributions": "contributions that count",
    "refused": "refusals",
    "gates": "who measured",
    "lessons": "evidence of each lesson",
    "rewards": "rewards",
    "result": "result",
}


def lesson_checks(opened: Opened, folder: Path) -> Iterator[Check]:
    """Returns the checks of a published round of lessons."""

    def read() -> Mapping[str, Any]:
        report = published_report(opened)
        fetch(stored_file(report), opened.storage, folder / PUBLISHED)
        return report

    def repeat() -> tuple[Mapping[str, Any], str]:
        found = combine(opened.state, opened.storage, folder)
        return found.fields, _counts(found)

    return compared(opened, read, repeat, _TITLES)


def void_check(opened: Opened, folder: Path) -> Check | None:
    """Returns the check of a round that is void because no lesson is kept; None of another one."""

    def repeat() -> str:
        least, measured = terms_of(opened.manifest).least, len(opened.state.measured.lessons)
        if measured < least:  # without measurements no lesson is kept of any round
            raise InputError(
                f"expected measurements by {counted(least, 'key')}, got {measured}",
                code="rounds.few_measured",
            )
        found = combine(opened.state, opened.storage, folder)
        if found.kept:
            raise InputError(
                f"expected no lesson that is kept, got {found.kept}", code="rounds.lessons_kept"
            )
        return f"none of {counted(len(found.judged), 'lesson')}"

    return made("kept lessons", repeat) if opened.state.reason == NOTHING_KEPT else None


def _counts(found: Combined) -> str:
    """Returns how many lessons there are, how many are kept, and of these what was not measured."""
    late = {item.id for left in found.late.values() for item in left}
    early = f", {len(late)} of them before all keys of role gate measured" if late else ""
    return f"{counted(len(found.judged), 'lesson')}, {found.kept} kept{early}"
