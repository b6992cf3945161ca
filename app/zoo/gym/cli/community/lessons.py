"""What `zoo-gym round` does in a round of lessons: start, contribute, aggregate, rewards, apply."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from zoo.gym.cli.community.opened import command, known_keys
from zoo.gym.cli.community.options import GateOptions, LessonOptions, given_of, refuse_given
from zoo.gym.cli.community.sending import commit, warn_of_other_key
from zoo.gym.cli.community.voiding import or_void
from zoo.gym.cli.ending import fail
from zoo.gym.cli.output import Output
from zoo.gym.errors import EXIT_CODES, GymError, InputError
from zoo.gym.humanize import counted, human_bytes
from zoo.gym.signing import parse_key

if TYPE_CHECKING:
    from zoo.gym.rounds.lessons.result import Combined
    from zoo.gym.rounds.lessons.start import LessonTerms
    from zoo.gym.rounds.life.contributing import Own
    from zoo.gym.rounds.life.opening import Opened
    from zoo.gym.rounds.storage.base import Storage
    from zoo.gym.signing import OwnKey, PublicKey

LESSONS = "a round of lessons"

_OF_WEIGHTS = (
    "form",
    "method",
    "f",
    "rank",
    "tensors",
    "after",
    "newcomers_rounds",
    "newcomers_share",
    "private",
    "force",
    "yes",
)


def refuse_of_weights(typed: Mapping[str, object], measured: GateOptions) -> None:
    """Refuses options of `round create` that only a round about weights has.

    Raises:
        InputError: one was given; it is named.
    """
    refuse_given({name: typed[name] for name in _OF_WEIGHTS} | given_of(measured), LESSONS)


def begin_lessons(storage: "Storage", terms: "LessonTerms", key: "OwnKey", out: Output) -> "Opened":
    """Starts a round of lessons in a storage, and keeps where it is."""
    from zoo.gym.rounds.lessons.start import lessons_manifest
    from zoo.gym.rounds.life.opening import open_round
    from zoo.gym.rounds.life.places import remember_place
    from zoo.gym.rounds.life.writing import create_round

    create_round(storage, lessons_manifest(terms, key.public, dt.datetime.now(dt.UTC)), key)
    opened = open_round(storage)
    remember_place(opened, used=True)
    if len(terms.gates) == terms.lessons.least:
        out.say("note: each key of --gate must measure each lesson, and none measures its own:")
        out.say("lessons that a key of --gate contributes cannot be kept")
    return opened


Numbers: TypeAlias = "tuple[int, int | None, int, int, int, tuple[PublicKey, ...]]"
"""Quorum, most contributors, seconds of both phases, pool and witnesses."""


def lesson_terms(
    name: str,
    base: str,
    given: LessonOptions,
    gate: tuple[str, ...],
    numbers: Numbers,
) -> "LessonTerms":
    """Returns the terms of a round of lessons that options make."""
    from zoo.gym.experience.library.library import MOST_ITEMS
    from zoo.gym.experience.sharing.limits import MOST_OF_ONE
    from zoo.gym.rounds.lessons.measuring import public_name
    from zoo.gym.rounds.lessons.start import LessonTerms
    from zoo.gym.rounds.lessons.terms import Lessons

    least = 2 if given.least is None else given.least
    most = MOST_OF_ONE if given.most is None else given.most
    items = MOST_ITEMS if given.items is None else given.items
    gates = known_keys("--gate", gate)
    if not gates:
        raise InputError("--gate: expected the keys that measure lessons, got none")
    for option, value, largest in (
        ("--least", least, len(gates)),
        ("--most", most, MOST_ITEMS),
        ("--items", items, MOST_ITEMS),
    ):
        if not 1 <= value <= largest:
            raise InputError(f"{option}: expected 1 to {largest}, got {value}")
    lessons = Lessons(least=least, clear=given.clear, most=most, items=items)
    return LessonTerms(name, public_name(base), lessons, gates, *numbers)


def contribute_lessons(
    opened: "Opened", source: str, typed: Mapping[str, object], out: Output, *, yes: bool
) -> int:
    """Reduces a library to what is published, and commits to it.

    Args:
        opened: the round.
        source: NAME, NAME@VERSION or a file.
        typed: other options of the command, which have no effect here but `send`.
        out: shows what is done.
        yes: commit without asking.
    """
    from zoo.gym.experience import store
    from zoo.gym.rounds.life.contributing import prepare_lessons
    from zoo.gym.signing import own_key

    refuse_given({name: typed[name] for name in ("base", "examples")}, LESSONS)
    given = store.load_candidates(source)
    key = own_key()
    warn_of_other_key(opened, key.public, out)
    _warn_of_own_gate(opened, key.public, out)
    own, entry = prepare_lessons(opened, given.library, source, key)
    count, model = counted(len(given.library.items), "lesson"), opened.manifest.base.model
    out.answer(f"{own.file}: {human_bytes(own.bytes)}, {count} without sources and evidence")
    if given.library.measured_with not in ("", model):
        out.say(f"note: the round is for {model}, the library for {given.library.measured_with}")
    receipt = commit(opened, own, entry, "text", out, send=bool(typed["send"]), yes=yes)
    out.result(sent(opened, receipt, own))
    return 0


def _warn_of_own_gate(opened: "Opened", key: "PublicKey", out: Output) -> None:
    """Warns a key that measures if too few others measure for its own lessons ever to be kept."""
    gates, terms = opened.manifest.keys_of("gate"), opened.manifest.lessons
    if terms is not None and key in gates and len(gates) - 1 < terms.least:
        out.say(
            f"note: your key measures, and none speaks for its own lessons: {len(gates) - 1} of at "
            f"least {terms.least} keys can measure yours, so that none is kept"
        )


def sent(opened: "Opened", receipt: str | None, own: "Own") -> dict[str, object]:
    """Returns for programs what was contributed, and the name of its entry if it was sent."""
    return {
        "round": opened.state.id,
        "receipt": receipt,
        "digest": own.digest,
        "bytes": own.bytes,
        "phase": opened.state.phase.value,
        "file": str(own.file),
        "address": opened.storage.address,
    }


def aggregate_lessons(
    opened: "Opened", typed: Mapping[str, object], out: Output, *, force: bool, yes: bool
) -> int:
    """Computes which lessons are kept and publishes them, or makes the round void."""
    from zoo.gym.rounds.lessons.publish import publish_lessons
    from zoo.gym.rounds.lessons.result import NOTHING_KEPT
    from zoo.gym.signing import load_key

    refuse_given(typed, LESSONS)
    found = or_void(partial(publish_lessons, opened.storage, load_key(), force=force), yes=yes)
    for key, reason in found.refused.items():
        out.answer(f"refused {key.fingerprint}: {reason}")
    answer = _show_judged(found, out)
    if found.file is None:
        message = f"round {opened.manifest.name} is void: {NOTHING_KEPT}"
        return fail(out, answer, message, None, EXIT_CODES[GymError])
    fields = found.fields
    digest = fields["result"]["digest"]
    out.answer(f"result {digest[:12]}: {counted(found.kept, 'lesson')} of {len(found.judged)}")
    out.answer(f"the result is a library: {found.file}")
    late = _show_late(found, out)
    out.result({"result": str(found.file), "digest": digest, **answer, "late": late})
    return 0


def _show_late(found: "Combined", out: Output) -> list[dict[str, object]]:
    """Warns of each lesson that is kept although keys of role gate have not measured it.

    Returns:
        The keys with the ids of these lessons, for programs.
    """
    times = Counter(item.text for left in found.late.values() for item in left)
    for text, count in times.items():
        have = f"{counted(count, 'key')} of role gate {'has' if count == 1 else 'have'}"
        out.say(f"note: kept although {have} not measured it: {text}")
    return [
        {"key": str(key), "lessons": [item.id for item in left]} for key, left in found.late.items()
    ]


def _show_judged(found: "Combined", out: Output) -> dict[str, object]:
    """Prints what is known of each lesson, and returns it for programs."""
    lessons: list[dict[str, object]] = []
    for of, one in found.judged:
        word = "kept" if one.kept else "left out"
        effect = "" if one.effect is None else f"{100 * one.effect:+.1f} points, "
        keys = counted(len(one.signers), "key")
        out.answer(f"{word:<8} {effect}measured by {keys}: {of.item.text}")
        if one.why:
            out.say(f"         {one.why}")
        lessons.append(
            {
                "id": of.item.id,
                "contributor": str(of.contributor),
                "kept": one.kept,
                "effect": one.effect,
                "low": one.low,
                "signers": list(one.signers),
                "why": one.why,
            }
        )
    refused = [{"contributor": str(k), "reason": r} for k, r in found.refused.items()]
    return {"kept": found.kept, "lessons": lessons, "refused": refused}


def rewards_of_lessons(opened: "Opened", out: Output) -> int:
    """Computes a published round again and shows how its points are shared out."""
    from zoo.gym.rounds.compute.publish import work_folder
    from zoo.gym.rounds.lessons.result import combine

    found = combine(opened.state, opened.storage, work_folder(opened.state.id))
    fields = found.fields if found.file else {}
    if not fields or fields["result"]["digest"] != opened.state.result:
        raise InputError(
            f"round {opened.manifest.name}: expected the published result, computed another one",
            hint=f"{command('verify', opened)} shows what differs",
        )
    shared: dict[str, int] = fields["rewards"]["points"]
    for key, points in sorted(shared.items(), key=lambda item: -item[1]):
        out.answer(f"{points:>8}  {parse_key(key).fingerprint}")
    out.result({"pool": opened.manifest.pool, "rule": fields["rewards"]["rule"], "rewards": shared})
    return 0


def apply_lessons_of(opened: "Opened", name: str | None, out: Output) -> int:
    """Verifies a round and stores its lessons as a new version of a library."""
    from zoo.gym.cli.libraries import facts
    from zoo.gym.rounds.lessons.applying import apply_lessons

    applied = apply_lessons(opened, name)
    saved, least = applied.saved, opened.manifest.lessons
    label, count = f"{saved.name}@{saved.version}", len(saved.library.items)
    out.answer(
        f"verified; {label}: {counted(count, 'lesson')}, {applied.believed} with evidence of keys "
        "that you trust"
    )
    for key, known in applied.gates.items():
        out.say(f"measured: {key}, {known or 'not a key that you trust'}")
    if applied.believed < count and least is not None:
        out.say(
            f"the others are foreign: trust {least.least} of these keys (zoo-gym keys trust NAME "
            "KEY) and apply the round again"
        )
    if applied.before is not None:
        back = f"zoo-gym experience rollback {saved.name} {applied.before}"
        out.say(f"before it {saved.name}@{applied.before} was used: {back}")
    gates = {str(key): known for key, known in applied.gates.items()}
    more = {"believed": applied.believed, "gates": gates, "previous": applied.before}
    out.result(facts(saved) | more)
    return 0
