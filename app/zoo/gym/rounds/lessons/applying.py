"""Stores the verified lessons of a round as a version of a library of the user's.

The keys that measured were chosen by the round's maker. What they found counts as evidence of a
lesson only as far as the user trusts them: the records of trusted keys are judged once more, by
the terms of the round. Lessons that this does not keep are stored as foreign, without evidence.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from zoo.gym.errors import GymError, InputError
from zoo.gym.experience import store
from zoo.gym.experience.library.file import read_library
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.sharing.keep import Judged
from zoo.gym.humanize import counted
from zoo.gym.rounds.compute.applying import refuse_unverified
from zoo.gym.rounds.compute.publish import work_folder
from zoo.gym.rounds.lessons.contribution import candidates_of
from zoo.gym.rounds.lessons.result import PUBLISHED, judged_in
from zoo.gym.rounds.session.known_rounds import word_for
from zoo.gym.rounds.session.opening import Opened
from zoo.gym.signing import PublicKey, has_key, load_key, parse_key, trusted_keys


@dataclass(frozen=True)
class AppliedLessons:
    """The lessons of a round in the user's store.

    Attributes:
        saved: the version that has them.
        before: the version that was used before; None if there was none.
        gates: the names of the round's keys that measure, empty for those not trusted, by key.
        believed: how many lessons have evidence of trusted keys.
    """

    saved: store.Stored
    before: int | None
    gates: Mapping[PublicKey, str]
    believed: int


def apply_lessons(opened: Opened, name: str | None = None) -> AppliedLessons:
    """Verifies a round of lessons and stores its result, unless that was done before.

    Args:
        name: of the library, whatever it has so far; by default made of the round's name, which no
            library has that was not made of this round's result.

    Raises:
        NotAvailableError: the round has no result yet.
        InputError: a check of the round fails, or the name is none, or that of another library.
        StorageError: the library cannot be written.
    """
    target = store.plain_name(opened.manifest.name) if name is None else name
    store.check_name(target)
    work = work_folder(opened.state.id)
    refuse_unverified(opened, work)
    library, digest = read_library(work / PUBLISHED)
    names = {key: name for name, key in trusted_keys().items()}
    if name is None and target in store.names():
        _refuse_other(store.load(target), digest, opened)
    own_key = load_key().public if has_key() else None
    gates = {
        key: "you" if key == own_key else names.get(key, "")
        for key in sorted(opened.manifest.keys_of("gate"))
    }
    trusted = [key for key, name in gates.items() if name]
    judgements = judged_in(opened.state, candidates_of(opened.state, opened.storage, work), trusted)
    judged = {judgement.item.id: judgement for of, judgement in judgements if of.same is None}
    items = tuple(_stored(lesson, judged[lesson.id], names) for lesson in library.items)
    previous = store.current(target) if target in store.names() else None
    saved = store.save(target, replace(library, items=items, parent=digest))
    believed = sum(not lesson.is_foreign for lesson in items)
    return AppliedLessons(saved, None if previous == saved.version else previous, gates, believed)


def _refuse_other(stored: store.Stored, result: str, opened: Opened) -> None:
    """Refuses to put a result into the place of a library that was not made of it."""
    parents: dict[str, str] = {}
    for number in store.versions(stored.name):
        with suppress(GymError):  # one that cannot be used was made of nothing
            version = store.load(stored.name, number)
            parents[version.digest] = version.library.parent
    parent = stored.library.parent
    while parent != result and parent in parents:
        parent = parents.pop(parent)
    if parent != result:
        command = opened.manifest.command("apply", f"--name {stored.name}", word=word_for(opened))
        raise InputError(
            f"{stored.name}: expected a name that is free, or that of a library from this round, "
            f"got that of another one: {stored.name}@{stored.version}, "
            f"{counted(len(stored.library.items), 'lesson')}, which would be used no longer",
            hint=f"if you want that: {command}; otherwise choose another name",
            code="rounds.library_taken",
        )


def _stored(lesson: Item, judged: Judged, names: Mapping[PublicKey, str]) -> Item:
    """Returns a lesson with the evidence of trusted keys, and its author if that is one of them."""
    author = lesson.author if parse_key(lesson.author) in names else ""
    return replace(lesson, author=author, evidence=judged.item.evidence if judged.kept else {})


def refuse_library(name: str) -> None:
    """Refuses the name of a library where that of a base is expected.

    Raises:
        InputError: a library has that name.
    """
    if name in store.names():
        raise InputError(
            f"undo: expected a base model, got the library {name}",
            hint=f"zoo-gym experience rollback {name} VERSION uses an earlier version again",
            code="rounds.is_library",
        )
