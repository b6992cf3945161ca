"""`zoo-gym experience list, show, diff, rollback, pin`: the libraries of lessons."""

from dataclasses import asdict, replace

from zoo.gym.cli.options import Json, Switch, Yes, confirmed
from zoo.gym.cli.output import Output
from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.library.evidence import proof_of
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.store import Stored
from zoo.gym.humanize import counted


def list_libraries(*, as_json: Json = False) -> int:
    """Lists the libraries of lessons, with the version that is used.

    Args:
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    rows: list[dict[str, object]] = []
    refused: list[dict[str, object]] = []
    for name in store.names():
        try:
            stored = store.load(name)
        except InputError as error:
            refused.append({"name": name, "reason": error.message})
            out.say(f"{name} cannot be used: {error}")
            continue
        rows.append(stored.facts | {"versions": store.versions(name)})
        lessons = counted(len(stored.library.items), "lesson")
        out.answer(f"{name}@{stored.version}  {lessons}, {verdict(stored)}, for {_model(stored)}")
    if not rows and not refused:
        out.say("no libraries yet; learn one: zoo-gym experience train TASKS --model MODEL")
    out.result({"libraries": rows, "refused": refused})
    return 0


def show(library: str, /, *, as_json: Json = False) -> int:
    """Shows the lessons of a library and what was measured.

    Args:
        library: its name, NAME@VERSION, or a file
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    stored = store.load_given(library)
    tokens = f"{stored.library.tokens} tokens"
    name = f"{stored.name}@{stored.version}" if stored.version else str(stored.path)
    out.answer(f"{name}: {verdict(stored)}, for {_model(stored)}, {tokens}")
    say_held_back(out, stored)
    for lesson in stored.library.items:
        mark = " (pinned)" if lesson.pinned else ""
        mark += " (foreign)" if lesson.is_foreign else ""
        words = "\n         ".join(["", *_known_of(lesson)])
        out.answer(f"[{lesson.id[:6]}] {lesson.text}{mark}{words}")
    items = [asdict(lesson) | {"id": lesson.id} for lesson in stored.library.items]
    out.result(stored.facts | {"items": items, "text": stored.library.text})
    return 0


def _known_of(lesson: Item) -> list[str]:
    """Returns where a lesson is from and what was measured of it, in words."""
    counts = f"{lesson.better} better and {lesson.worse} worse answers"
    if lesson.step:
        lines = [f"step {lesson.step}: learned from a group with {counts}"]
    else:
        lines = [f"its file counts {counts}"] if lesson.better or lesson.worse else []
    seen = {key: value for key, value in lesson.evidence.items() if isinstance(value, int | float)}
    if {"probe_without", "probe_with"} <= seen.keys():
        lines.append(
            f"probe: mean reward {seen['probe_without']:.2f} without it, "
            f"{seen['probe_with']:.2f} with it"
        )
    if {"gain", "tasks"} <= seen.keys():
        tasks = counted(int(seen["tasks"]), "task")
        lines.append(f"prune: {100 * seen['gain']:+.1f} points with it, on {tasks} near it")
    return lines


def diff(before: str, after: str, /, *, as_json: Json = False) -> int:
    """Shows the lessons that one library has and another has not.

    Args:
        before: a name, NAME@VERSION, or a file
        after: another one
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    libraries = [store.load_given(library).library for library in (before, after)]
    old, new = ({lesson.id: lesson.text for lesson in library.items} for library in libraries)
    removed = [text for key, text in old.items() if key not in new]
    added = [text for key, text in new.items() if key not in old]
    for mark, texts in (("-", removed), ("+", added)):
        for text in texts:
            out.answer(f"{mark} {text}")
    if not removed and not added:
        out.say("the same lessons")
    out.result({"removed": removed, "added": added, "same": not removed and not added})
    return 0


def rollback(library: str, version: int, /, *, as_json: Json = False) -> int:
    """Uses an earlier version of a library again; no version is lost.

    Args:
        library: its name
        version: the number of the version
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    store.use(library, version)
    stored = store.load(library)
    out.answer(f"{library}@{stored.version} is used: {verdict(stored)}")
    out.result(stored.facts)
    return 0


def remove(library: str, /, *, yes: Yes = False, as_json: Json = False) -> int:
    """Deletes a library, or one version of it, after a confirmation.

    Args:
        library: its name for all versions, or NAME@VERSION
        yes: delete without a confirmation
        as_json: print one JSON object as stdout's last line
    """
    out = Output(as_json)
    name, version = store.name_and_version(library)
    numbers = store.versions(name)
    what = counted(len(numbers), "version") if version is None else f"version {version}"
    if not confirmed(f"Permanently delete {what} of {name}? [y/N] ", yes=yes):
        raise InputError(
            f"{library} was not deleted: expected a confirmation",
            hint=f"delete it without a confirmation: zoo-gym experience remove {library} --yes",
            code="cli.not_confirmed",
        )
    gone = store.remove(name, version)
    out.answer(f"{name}: {counted(len(gone), 'version')} deleted")
    out.result({"name": name, "versions": gone})
    return 0


def pin(library: str, /, *lessons: str, off: Switch = False, as_json: Json = False) -> int:
    """Pins lessons, as a new version: with --top-k they are in every prompt beside the nearest.

    Args:
        library: its name
        lessons: the ids of the lessons, or how they begin
        off: take the pins away instead
        as_json: print one JSON object as stdout's last line
    """
    out, stored = Output(as_json), store.load(library)
    if not lessons:
        raise InputError(
            "ID: expected the id of at least one lesson, got none", code="cli.missing_argument"
        )
    items = {lesson.id: lesson for lesson in stored.library.items}
    for start in lessons:
        lesson = stored.library.find(start)
        if lesson is None:
            raise InputError(
                f"ID: expected the id of one lesson of {library}, got {start!r}",
                hint=f"zoo-gym experience show {library}",
                code="cli.no_such_lesson",
            )
        items[lesson.id] = replace(lesson, pinned=not off)
    changed = replace(stored.library, items=tuple(items.values()))
    if changed != stored.library:
        was_near = "top_k" in stored.library.evidence  # what was measured had other prompts
        evidence = {} if was_near else stored.library.evidence
        changed = replace(changed, evidence=evidence, parent=stored.digest)
        saved = store.save(library, changed)
    else:
        saved = stored
    count = sum(lesson.pinned for lesson in changed.items)
    out.answer(f"{library}@{saved.version}: {count} of {counted(len(items), 'lesson')} pinned")
    out.result(saved.facts | {"pinned": [i.id for i in changed.items if i.pinned]})
    return 0


def verdict(stored: Stored) -> str:
    """Returns what is known of a library's effect, in words."""
    proof, items = proof_of(stored.library.evidence), stored.library.items
    if proof is None:
        foreign = sum(lesson.is_foreign for lesson in items)
        return f"unproven, {foreign} of {len(items)} foreign" if foreign else "unproven"
    effect, low, high = (100 * value for value in proof)
    return f"proven: {effect:+.1f} points (95 % {low:+.1f} to {high:+.1f})"


def say_held_back(out: Output, stored: Stored | None) -> None:
    """Shows the lessons of a file that are held back."""
    for sentence in stored.notices if stored else ():
        out.say(sentence)


def _model(stored: Stored) -> str:
    return stored.library.measured_with or "an unknown model"
