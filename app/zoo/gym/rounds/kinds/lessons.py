"""Rounds of lessons: texts of many libraries, kept for what keys of role gate measured of them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from zoo.gym.humanize import counted, human_bytes
from zoo.gym.rounds.kind import Choices, Fields, Kind, Prints, Request, Shown, listed
from zoo.gym.rounds.protocol.lessons import check_lessons_round, terms_of

if TYPE_CHECKING:
    from zoo.gym.experience.library.library import Library
    from zoo.gym.rounds.compute.verify import Check
    from zoo.gym.rounds.lessons.result import Combined
    from zoo.gym.rounds.privacy.contribution import Written
    from zoo.gym.rounds.protocol.manifest import Manifest
    from zoo.gym.rounds.protocol.records import Measured
    from zoo.gym.rounds.protocol.state import State
    from zoo.gym.rounds.session.contributing import Prepared
    from zoo.gym.rounds.session.opening import Opened
    from zoo.gym.signing import OwnKey, PublicKey, Signed

_HERE = "a round of lessons"
_CREATING = ("form", "method", "f", "rank", "tensors", "after")
_PROMISES = ("newcomers_rounds", "newcomers_share", "private", "force", "yes")
_GATE = ("evaluation", "margin", "quality_threshold", "validator", "refit", "refusals", "triggers")
_MEASURING = ("base", "evaluation", "refit", "refusals", "triggers", "previous", "validator")


class LessonsRound(Kind["Library", "Combined"]):
    """A round that changes no weights."""

    combines = "lessons"
    content = "text"
    sends = "lessons"
    example = "LIBRARY"
    file = coded = "lessons.json"
    each_key_measures = True
    without_effect: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "create": dict.fromkeys((*_CREATING, *_PROMISES, *_GATE, "previous"), _HERE),
        "contribute": dict.fromkeys(("base", "examples"), _HERE),
        "measure": dict.fromkeys((*_MEASURING, "threads", "offline"), _HERE),
        "aggregate": dict.fromkeys(("ray", "threads"), _HERE),
        "verify": dict.fromkeys(("measure", "previous", "base", "threads"), _HERE),
        "apply": dict.fromkeys(("base", "threads", "yes", "offline"), _HERE),
    }

    def check(self, manifest: "Manifest") -> None:
        """Refuses terms of weights, and more lessons than can be measured."""
        check_lessons_round(manifest)

    def code(self, manifest: "Manifest", source: "Library", out: Path) -> "Written | None":
        """Writes what is published of a library."""
        from zoo.gym.rounds.lessons.contribution import write_lessons

        write_lessons(source, manifest, out)
        return None

    def check_file(self, path: Path, manifest: "Manifest") -> None:
        """Refuses a library that has more than texts, or lessons that nobody may send."""
        from zoo.gym.rounds.lessons.contribution import read_lessons

        read_lessons(path, manifest)

    def contribute(
        self, opened: "Opened", request: Request, key: "OwnKey", out: Prints
    ) -> "tuple[Prepared, Signed, Fields]":
        """Reduces a library to what is published."""
        from zoo.gym.experience import store
        from zoo.gym.rounds.session.contributing import prepare_source

        library, model = store.load_candidates(request.name).library, opened.manifest.base.model
        _warn_of_own_gate(opened.manifest, key.public, out)
        prepared, entry = prepare_source(opened, library, request.name, key)
        count = counted(len(library.items), "lesson")
        out.answer(
            f"{prepared.file}: {human_bytes(prepared.bytes)}, {count} without sources and evidence"
        )
        if library.measured_with not in ("", model):
            out.say(f"note: the round is for {model}, the library for {library.measured_with}")
        return prepared, entry, {}

    def publish(self, opened: "Opened", key: "OwnKey", choices: Choices) -> "Combined":
        """Computes which lessons are kept and publishes them."""
        from zoo.gym.rounds.lessons.result import publish_lessons

        return publish_lessons(opened.storage, key, force=choices.force, void=choices.void)

    def show(self, result: "Combined", opened: "Opened", out: Prints) -> Shown:
        """Prints what is known of each lesson, and which are kept."""
        from zoo.gym.rounds.lessons.result import NOTHING_KEPT

        for key, reason in result.refused.items():
            out.answer(f"refused {key.fingerprint}: {reason}")
        fields = _show_judged(result, out)
        if result.file is None:
            return fields, f"round {opened.manifest.name} is void: {NOTHING_KEPT}"
        digest = result.fields["result"]["digest"]
        out.answer(
            f"result {digest[:12]}: {counted(result.kept, 'lesson')} of {len(result.judged)}"
        )
        out.answer(f"the result is a library: {result.file}")
        late = _show_late(result, out)
        return {"result": str(result.file), "digest": digest, **fields, "late": late}, None

    def checks(self, opened: "Opened", folder: Path, threads: int | None) -> "Iterator[Check]":
        """Yields the comparison with what is computed again."""
        from zoo.gym.rounds.lessons.result import lesson_checks

        del threads
        return lesson_checks(opened, folder)

    def void_check(self, opened: "Opened", folder: Path, threads: int | None) -> "Check | None":
        """Returns whether no lesson is kept, if that is the reason."""
        from zoo.gym.rounds.lessons.result import void_check

        del threads
        return void_check(opened, folder)

    def rewards(self, opened: "Opened", folder: Path) -> tuple[str, Mapping[str, int]]:
        """Returns the parts by the effects of what is kept of each key."""
        from zoo.gym.rounds.compute.publish import refuse_other_result
        from zoo.gym.rounds.lessons.result import combine

        result = combine(opened.state, opened.storage, folder)
        refuse_other_result(opened.state, result.digest)
        rewards = result.fields["rewards"]
        return rewards["rule"], rewards["points"]

    def apply(self, opened: "Opened", request: Request, out: Prints) -> Fields:
        """Stores the lessons as a new version of a library."""
        from zoo.gym.rounds.lessons.applying import apply_lessons

        applied = apply_lessons(opened, request.library)
        saved, least = applied.saved, terms_of(opened.manifest).least
        label, count = f"{saved.name}@{saved.version}", len(saved.library.items)
        out.answer(
            f"verified; {label}: {counted(count, 'lesson')}, {applied.believed} with evidence of "
            "keys that you trust"
        )
        for key, owner in applied.gates.items():
            out.say(f"measured: {key}, {owner or 'not a key that you trust'}")
        if applied.believed < count:
            out.say(
                f"the others are foreign: trust {least} of these keys (zoo-gym keys trust NAME "
                "KEY) and apply the round again"
            )
        if applied.before is not None:
            back = f"zoo-gym experience rollback {saved.name} {applied.before}"
            out.say(f"before it {saved.name}@{applied.before} was used: {back}")
        gates = {str(key): owner for key, owner in applied.gates.items()}
        more = {"believed": applied.believed, "gates": gates, "previous": applied.before}
        return saved.facts | more

    def is_measured(self, state: "State") -> bool:
        """Returns whether as many keys measured as the terms want."""
        return len(state.measured.lessons) >= terms_of(state.manifest).least

    def measure_options(self, manifest: "Manifest", measured: "Measured") -> str:
        """Returns tasks and a model, which each key chooses."""
        del manifest, measured
        return "TASKS --model MODEL --send"

    def rule(self, manifest: "Manifest") -> str:
        """Returns by how many keys a lesson is kept."""
        lessons, gates = terms_of(manifest), len(manifest.keys_of("gate"))
        clear = ", with a clear gain" if lessons.clear else ""
        keys = f"{counted(gates, 'key')} that {'measures' if gates == 1 else 'measure'}"
        return f"lessons, kept at {lessons.least} of {keys}{clear}"


def _warn_of_own_gate(manifest: "Manifest", key: "PublicKey", out: Prints) -> None:
    """Warns a key that measures if too few others measure for its own lessons ever to be kept."""
    gates, least = manifest.keys_of("gate"), terms_of(manifest).least
    if key in gates and len(gates) - 1 < least:
        out.say(
            f"note: your key measures, and none speaks for its own lessons: {len(gates) - 1} of at "
            f"least {least} keys can measure yours, so that none is kept"
        )


def _show_late(result: "Combined", out: Prints) -> list[dict[str, object]]:
    """Warns of each lesson that is kept although keys of role gate have not measured it."""
    times = Counter(lesson.text for left in result.late.values() for lesson in left)
    for text, count in times.items():
        have = f"{counted(count, 'key')} of role gate {'has' if count == 1 else 'have'}"
        out.say(f"note: kept although {have} not measured it: {text}")
    return [
        {"key": str(key), "lessons": [lesson.id for lesson in left]}
        for key, left in result.late.items()
    ]


def _show_judged(result: "Combined", out: Prints) -> dict[str, Any]:
    lessons: list[dict[str, object]] = []
    for of, judgement in result.judged:
        word = "kept" if judgement.kept else "left out"
        effect = "" if judgement.effect is None else f"{100 * judgement.effect:+.1f} points, "
        keys = counted(len(judgement.signers), "key")
        out.answer(f"{word:<8} {effect}measured by {keys}: {of.item.text}")
        if judgement.why:
            out.say(f"         {judgement.why}")
        lessons.append(
            {
                "id": of.item.id,
                "contributor": str(of.contributor),
                "kept": judgement.kept,
                "effect": judgement.effect,
                "low": judgement.low,
                "signers": list(judgement.signers),
                "why": judgement.why,
            }
        )
    return {"kept": result.kept, "lessons": lessons, "refused": listed(result.refused)}
