"""`zoo-gym experience keep`: lessons of others that enough trusted keys found good."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from zoo.gym.cli.ending import fail
from zoo.gym.cli.options import Json, Switch
from zoo.gym.cli.output import Output
from zoo.gym.config.items import existing
from zoo.gym.errors import GymError, InputError
from zoo.gym.experience import store
from zoo.gym.experience.sharing.limits import MOST_OF_ONE
from zoo.gym.humanize import counted
from zoo.gym.signing import YOU, PublicKey, has_key, load_key, trusted_keys

if TYPE_CHECKING:
    from zoo.gym.experience.sharing.keep import Judged
    from zoo.gym.experience.sharing.measurement import Measurement

Most = Annotated[int, Parameter(name="--most")]
Release = Annotated[tuple[str, ...], Parameter(name="--release")]


def keep(
    library: str,
    /,
    *measured: str,
    least: int = 2,
    clear: Switch = False,
    name: str | None = None,
    add: Switch = False,
    most: Most = MOST_OF_ONE,
    release: Release = (),
    as_json: Json = False,
) -> int:
    """Keeps the lessons that trusted keys measured and found good, as a new version.

    A lesson stays if enough keys measured it, which may be yours, the median of their effects is
    above 0, and nobody's interval is below 0 as a whole.

    Args:
        library: the candidates: a name, NAME@VERSION, or a file
        measured: files of signed measurements, of experience gate --each
        least: by how many keys a lesson must have been measured
        clear: all their effects together must be above 0 at 5 %: without it, about 4 of 10
            lessons that change nothing are kept, at two keys a quarter
        name: the library to store; by default that of the candidates
        add: keep the lessons that the library has, too, instead of replacing them
        most: lessons of one author at most: those with the largest effects
        release: ids of lessons in quarantine, or like others, that you have read and want
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.experience.sharing.keep import crowded_out, judge

    out, candidate = Output(as_json), store.load_candidates(library)
    target = candidate.name if name is None else name
    store.check_name(target)
    names = _names(least)
    if not measured:
        raise InputError(
            "MEASURED: expected files of signed measurements, got none", code="cli.missing_argument"
        )
    records, left_out = _records(out, measured, names)
    refuse_unknown(release, {lesson.id for lesson in candidate.library.items})
    stored = store.load(target) if add and target in store.names() else None
    current = () if stored is None else stored.library.items
    candidates = store.as_taken(candidate).items
    judged = judge(candidates, records, names, least, release, clear=clear)
    judged = crowded_out(judged, current, most, release)
    for verdict in judged:
        word = "kept" if verdict.kept else "left out"
        effect = "" if verdict.effect is None else f"{100 * verdict.effect:+.1f} points, "
        by = ", ".join(verdict.signers) or "nobody"
        out.answer(f"{word:<8} {effect}measured by {by}: {verdict.item.text}")
        if verdict.why:
            out.say(f"         {verdict.why}")
    accepted = tuple(verdict.item for verdict in judged if verdict.kept)
    lessons = list(map(_entry, judged))
    answer: dict[str, object] = {"kept": len(accepted), "judged": lessons, "left_out": left_out}
    if not accepted:
        message = f"none of {counted(len(judged), 'lesson')} is kept"
        return fail(out, answer, GymError(message, code="cli.nothing_kept"))
    ids = {lesson.id for lesson in accepted}
    base = candidate if stored is None else stored
    items = (*accepted, *(lesson for lesson in current if lesson.id not in ids))
    seen = (*base.library.seen, *candidate.library.seen)
    kept_library = replace(base.library, items=items, parent=base.digest, evidence={}, seen=seen)
    if kept_library.has_lessons_of(base.library):  # what was measured of them still holds
        kept_library = replace(kept_library, evidence=base.library.evidence)
    saved = store.save(target, kept_library)
    beside = f" beside {len(items) - len(accepted)}" if stored else ""
    out.answer(
        f"{target}@{saved.version}: {counted(len(accepted), 'lesson')} of {len(judged)}{beside}"
    )
    out.result(saved.facts | answer)
    return 0


def _records(
    out: Output, files: Sequence[str], names: Mapping[PublicKey, str]
) -> "tuple[list[tuple[PublicKey, Measurement]], list[str]]":
    """Returns what was measured, and why lines were left out; both are shown."""
    from zoo.gym.experience.sharing.measurement import read_measurements

    records: list[tuple[PublicKey, Measurement]] = []
    left_out: list[str] = []
    for file in files:
        read, problems = read_measurements(Path(existing(file, "a file of measurements")))
        records += read
        left_out += problems
    for sentence in left_out:
        out.say(f"left out: {sentence}")
    strangers = len({key for key, _ in records if key not in names})
    if strangers:
        out.say(f"not counted: measurements of {counted(strangers, 'key')} that you do not trust")
    return records, left_out


def _entry(judged: "Judged") -> dict[str, object]:
    return {
        "id": judged.item.id,
        "kept": judged.kept,
        "effect": judged.effect,
        "low": judged.low,
        "signers": list(judged.signers),
        "why": judged.why,
    }


def refuse_unknown(release: tuple[str, ...], ids: set[str]) -> None:
    """Refuses ids of no lesson.

    Raises:
        InputError: one is none of `ids`.
    """
    for lesson_id in release:
        if lesson_id not in ids:
            raise InputError(
                f"--release: expected the id of a lesson in the file, got {lesson_id!r}",
                code="cli.no_such_lesson",
            )


def _names(least: int) -> dict[PublicKey, str]:
    """Returns the keys that count with their names: the trusted ones and yours."""
    names = {key: name for name, key in trusted_keys().items()}
    if has_key():
        names[load_key().public] = YOU
    if not 1 <= least <= len(names):
        raise InputError(
            f"--least: expected at most {counted(len(names), 'key')} (yours and those that you "
            f"trust) and at least 1, got {least}",
            hint="zoo-gym keys trust NAME KEY",
            code="cli.bad_value",
        )
    return names
