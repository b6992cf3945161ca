"""Computes which lessons of a round are kept and who gets how many points, and publishes that.

A lesson is kept at `least` keys of role gate that measured it, with a median effect above 0 and no
interval below 0 as a whole (`experience.sharing.keep`); of a key that contributes lessons itself
such an interval counts only beside that of another key. Of those the ones with the largest effects
are the result, a library. A round that keeps none is void, and says so in its log.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from zoo.gym.files import json_object
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

Verdicts = Sequence[tuple[Candidate, Judged]]
"""What is known of each lesson."""


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

    judged: Verdicts
    file: Path | None
    report: bytes
    refused: Mapping[PublicKey, str]
    late: Mapping[PublicKey, Sequence[Item]] = field(default_factory=dict[PublicKey, list[Item]])

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the report; none if nothing is kept."""
        return json_object(self.report) or {}

    @property
    def digest(self) -> str | None:
        """The digest of the library; None if nothing is kept."""
        return str(self.fields["result"]["digest"]) if self.file else None

    @property
    def kept(self) -> int:
        """How many lessons are kept."""
        return sum(judgement.kept for _, judgement in self.judged)


def combine(state: State, storage: Storage, folder: Path) -> Combined:
    """Computes the result of a round of lessons after its reveals are closed.

    Args:
        folder: of the round on this machine; keeps what was fetched, and the result.

    Raises:
        InputError: fewer contributions count than the quorum.
        StorageError: a file cannot be read or written.
    """
    candidates = candidates_of(state, storage, folder)
    counted, quorum = len(candidates.contributors), state.manifest.quorum
    if counted < quorum:
        raise TooFewError(state.manifest, counted, candidates.refused)
    judged = judged_in(state, candidates)
    passed = [(of, judgement) for of, judgement in judged if judgement.kept]
    items = [replace(judgement.item, author=str(of.contributor)) for of, judgement in passed]
    if not items:
        return Combined(judged, None, b"", candidates.refused)
    file = folder / "result.json"
    evidence: dict[str, object] = {"by": "round", "round": state.id}
    write_library(file, Library(tuple(items), state.manifest.base.model, evidence=evidence))
    report = _report(state, candidates, judged, describe(file)[0])
    late = unmeasured(state, [of for of, _ in passed])
    return Combined(judged, file, report, candidates.refused, late)


def unmeasured(state: State, candidates: Sequence[Candidate]) -> dict[PublicKey, list[Item]]:
    """Returns what keys of role gate have not measured of some lessons, which are not their own."""
    missing: dict[PublicKey, list[Item]] = {}
    for key in sorted(state.manifest.keys_of("gate")):
        texts = {record.text for record in state.measured.lessons.get(key, {}).values()}
        left = [of.item for of in candidates if key not in of.authors and of.item.text not in texts]
        if left:
            missing[key] = left
    return missing


def judged_in(
    state: State, candidates: Candidates, keys: Collection[PublicKey] | None = None
) -> list[tuple[Candidate, Judged]]:
    """Returns what the records of a round say of each lesson, and which ones fit into a library.

    Args:
        keys: count only the records of these, and keep all that pass; by default all keys of role
            gate, and no more than the result may have.
    """
    lessons, records = terms_of(state.manifest), _by_text(state)
    counting = state.manifest.keys_of("gate") if keys is None else keys
    names = {key: str(key) for key in counting}
    judged: list[tuple[Candidate, Judged]] = []
    for candidate in candidates.lessons:
        measured = records.get(candidate.item.text, ())
        [judgement] = judge(
            [candidate.item],
            measured,
            names,
            lessons.least,
            clear=lessons.clear,
            apart=candidate.authors,
            rivals=candidates.contributors,
        )
        if candidate.same is not None:
            judgement = Judged(candidate.item, (), None, None, candidate.copied)
        judged.append((candidate, judgement))
    if keys is not None:
        return judged
    crowded = _crowded(judged, lessons.items)
    return [
        (of, replace(candidate, item=of.item, why=crowded[of.item.id]))
        if of.item.id in crowded and candidate.kept
        else (of, candidate)
        for of, candidate in judged
    ]


def _by_text(state: State) -> dict[str, list[tuple[PublicKey, Measurement]]]:
    measurements: dict[str, list[tuple[PublicKey, Measurement]]] = defaultdict(list)
    for key, lessons in state.measured.lessons.items():
        for record in lessons.values():
            figures = (record.model, record.tasks, record.effect, record.low, record.high)
            measurements[record.text].append((key, Measurement(record.text, *figures)))
    return measurements


def _crowded(judged: Verdicts, most: int) -> dict[str, str]:
    """Returns why lessons have no place in the result, by id: it takes the largest effects."""
    best = sorted(
        (judgement for _, judgement in judged if judgement.kept),
        key=lambda judgement: (-(judgement.effect or 0.0), judgement.item.id),
    )
    taken: list[Item] = []
    why: dict[str, str] = {}
    for judgement in best:
        if len(taken) == most:
            why[judgement.item.id] = f"the result has {most} lessons with larger effects"
        elif not _fits([*taken, judgement.item]):
            why[judgement.item.id] = f"the result has {MOST_TOKENS:,} tokens of lessons at most"
        else:
            taken.append(judgement.item)
    return why


def _fits(items: Sequence[Item]) -> bool:
    try:
        Library(tuple(items))
    except InputError:
        return False
    return True


def _report(state: State, candidates: Candidates, judged: Verdicts, stored: StoredFile) -> bytes:
    counts = {key: len(judgement) for key, judgement in state.measured.lessons.items()}
    body = report_body(
        state.id,
        {"method": EVIDENCE, **vars(terms_of(state.manifest))},
        [(key, state.reveals[key].digest) for key in candidates.contributors],
        candidates.refused,
        rewards_body(BY_EFFECT, points_of(_effects(judged), state.manifest.pool)),
        stored,
        gates=[
            {"key": str(key), "measured": counts.get(key, 0)}
            for key in sorted(state.manifest.keys_of("gate"))
        ],
        lessons=[_entry(of, judgement) for of, judgement in judged],
    )
    return canonical(body)


def _entry(of: Candidate, judgement: Judged) -> dict[str, object]:
    return {
        "item": of.item.id,
        "text": of.item.text,
        "contributor": str(of.contributor),
        "signers": list(judgement.signers),
        "effect": judgement.effect,
        "low": judgement.low,
        "why": judgement.why,
    }


def _effects(judged: Verdicts) -> dict[str, list[float]]:
    effects: dict[str, list[float]] = defaultdict(list)
    for of, judgement in judged:
        if judgement.kept and judgement.effect is not None:
            effects[str(of.contributor)].append(judgement.effect)
    return effects


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
            result = combine(state, storage, work_folder(state.id))
        _refuse_unmeasured(state)
        if state.phase is Phase.PUBLISHED:
            refuse_other_result(state, result.digest)
            # what was lost since is stored again
            store_all([result.file], [result.report], storage)
            return result
        if not force:
            _refuse_early(state, result)
        refusals = refusals_of(result.refused, state, key)
        if result.digest is None:
            append.add(refusals)
            append(objects.VOID, reason=NOTHING_KEPT)
            return result
        store_all([result.file], [result.report], storage)
        append.add([*refusals, result_entry(state, key, result.digest, result.report)])
        return result


def _refuse_unmeasured(state: State) -> None:
    """Refuses a round that too few keys measured: it waits, and is not void."""
    least, count = terms_of(state.manifest).least, len(state.measured.lessons)
    if count < least:
        raise InputError(
            f"round {state.manifest.name}: expected measurements by "
            f"{counted(least, 'key')}, got {count}",
            hint=f"keys of role gate make them: {state.manifest.command('measure')}",
            code="rounds.few_measured",
        )


def _refuse_early(state: State, result: Combined) -> None:
    """Refuses to end a round while keys of role gate have not measured what decides.

    That is each lesson that would be kept; if none would be, each lesson.
    """
    first = [of for of, _ in result.judged if of.same is None]
    late = result.late if result.kept else unmeasured(state, first)
    if not late:
        return
    keys = f"{counted(len(late), 'key')} of role gate {'has' if len(late) == 1 else 'have'}"
    forced = state.manifest.command("aggregate", "--force")
    if result.kept:
        lessons = {lesson.id for left in late.values() for lesson in left}
        message = f"{counted(len(lessons), 'lesson')} would be kept that {keys} not measured"
        hint = f"wait for them, or publish what was found without them: {forced}"
    else:
        message = f"{NOTHING_KEPT}, and {keys} not measured all of {len(first)}"
        hint = f"wait for them, or make it void: {forced}"
    raise InputError(f"round {state.manifest.name}: {message}", hint=hint, code="rounds.unmeasured")


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

    def read(stored: dict[str, Any]) -> None:
        stored.update(published_report(opened))
        fetch(stored_file(stored), opened.storage, folder / PUBLISHED)

    def repeat(ours: dict[str, Any]) -> str:
        result = combine(opened.state, opened.storage, folder)
        ours.update(result.fields)
        late = {lesson.id for left in result.late.values() for lesson in left}
        early = f", {len(late)} of them before all keys of role gate measured" if late else ""
        return f"{counted(len(result.judged), 'lesson')}, {result.kept} kept{early}"

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
        result = combine(opened.state, opened.storage, folder)
        if result.kept:
            raise InputError(
                f"expected no lesson that is kept, got {result.kept}", code="rounds.lessons_kept"
            )
        return f"none of {counted(len(result.judged), 'lesson')}"

    return made("kept lessons", repeat) if opened.state.reason == NOTHING_KEPT else None
