"""Publishes the lessons that a round keeps: the files first, then the entries that make them count.

A round that keeps none is void, and says so in its log. Both wait until all keys of role gate have
measured what decides, unless they are forced: of a lesson that few keys have measured, these few
alone would decide.
"""

from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.rounds.compute.publish import (
    refusals_of,
    refuse_other_result,
    result_entry,
    voiding,
    work_folder,
)
from zoo.gym.rounds.lessons.result import NOTHING_KEPT, Combined, combine, unmeasured
from zoo.gym.rounds.lessons.terms import terms_of
from zoo.gym.rounds.life.writing import writer_of
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import store, store_bytes
from zoo.gym.signing import OwnKey


def publish_lessons(
    storage: Storage, key: OwnKey, *, force: bool = False, void: bool = False
) -> Combined:
    """Computes the result of a round of lessons and publishes it, or computes it again.

    Measurements in the inbox are added first. If no lesson is kept, the round is void.

    Args:
        storage: of the round.
        key: of the log's writer.
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
            _store(found, storage)  # what was lost since is stored again
            return found
        if not force:
            _refuse_early(state, found)
        refusals = refusals_of(found.refused, state, key)
        if found.digest is None:
            append.add(refusals)
            append(objects.VOID, reason=NOTHING_KEPT)
            return found
        _store(found, storage)
        append.add([*refusals, result_entry(state, key, found.digest, found.report)])
        return found


def _store(found: Combined, storage: Storage) -> None:
    assert found.file is not None, "something is kept"
    store(found.file, storage)
    store_bytes(found.report, storage)


def _refuse_unmeasured(state: State) -> None:
    """Refuses a round of which too few keys measured anything: it waits, and is not void."""
    least, found = terms_of(state.manifest).least, len(state.measured.lessons)
    if found < least:
        raise InputError(
            f"round {state.manifest.name}: expected measurements by "
            f"{counted(least, 'key')}, got {found}",
            hint=f"keys of role gate make them: {state.manifest.command('measure')}",
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
    raise InputError(f"round {state.manifest.name}: {said}", hint=hint)
