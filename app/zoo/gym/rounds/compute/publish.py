"""Publishes the result of a round: the files first, then the entries that make them count."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from zoo.gym.errors import GymError, InputError
from zoo.gym.files import write_beside
from zoo.gym.paths import ensure_folder, folders
from zoo.gym.rounds.compute.aggregate import Computed, compute
from zoo.gym.rounds.compute.collect import Divide, NoResultError, Work, refusals_text
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.state import Phase, State
from zoo.gym.rounds.session.writing import Appender, writer_of
from zoo.gym.rounds.storage.base import Storage
from zoo.gym.rounds.storage.chunks import store_all
from zoo.gym.signing import OwnKey, PublicKey, Signed, sign

Dividing = Callable[[State], AbstractContextManager[Divide]]
"""Makes what lets several processes compute the result of a round, while the context is open."""


def work_folder(round_: str) -> Path:
    """Returns the folder of a round's files on this machine, which is made."""
    folder = folders().data / "rounds" / "work" / round_
    ensure_folder(folder)
    return folder


def publish(
    storage: Storage,
    key: OwnKey,
    *,
    threads: int | None = None,
    dividing: Dividing | None = None,
    void: bool = False,
    least: int = 0,
) -> Computed:
    """Computes the result of a round and publishes it; a published one is computed again.

    Args:
        dividing: lets several processes compute; only this one if None.
        void: make the round void if fewer contributions count than the quorum.
        least: publish nothing if fewer contributions count.

    Measurements in the inbox are added first. A result that fails the gate makes the round void.

    Raises:
        GymError: the result failed the gate, or too few contributions count: the round is void.
        InputError: too few contributions count, something was not measured that must be, or the
            result that is published differs.
        NotAvailableError: the round is in another phase.
        StorageError: a file cannot be read or written; no result is in the log.
    """
    with writer_of(storage, key) as append:
        if append.state.phase is Phase.COMPUTE:
            append.take()
        state = append.state
        state.expect_compute(Phase.PUBLISHED)
        folder = work_folder(state.id)
        divided = nullcontext() if dividing is None else dividing(state)
        with divided as divide, voiding(append, key, agreed=void):
            computed = compute(Work(state, storage, folder, threads, divide))
        _refuse_fewer(computed, least)
        write_beside(folder / "report.json", computed.report.as_bytes().decode(), sync=True)
        if state.phase is Phase.COMPUTE:
            _refuse_failed(computed, append)
            _refuse_other_words(computed.report.refused, state)
            _store(computed, storage)
            report = computed.report
            result = result_entry(state, key, report.result.digest, report.as_bytes())
            append.add([*refusals_of(report.refused, state, key), result])
        else:
            refuse_other_result(state, computed.report.result.digest)
            _store(computed, storage)  # what was lost since is stored again
        return computed


@contextmanager
def voiding(append: Appender, key: OwnKey, *, agreed: bool) -> Generator[None]:
    """Makes a round void in which too few contributions count or none has weight, if agreed.

    The refusals come first in the log, and then the reason.

    Raises:
        GymError: the round is void now.
        NoResultError: it could be made void.
        InputError: too few count of a result that is published.
    """
    try:
        yield
    except NoResultError as error:
        state = append.state
        if state.phase is not Phase.COMPUTE:
            raise InputError(error.message, code=error.code) from None
        if not agreed:
            raise
        body = objects.body_of(state.id, reason=error.reason)
        refusals = refusals_of(error.refused, state, key)
        append.add([*refusals, sign(key, objects.VOID, body)])
        why = f"; refused {refusals_text(error.refused)}" if error.refused else ""
        raise GymError(
            f"round {state.manifest.name} is void: {error.reason}{why}", code="rounds.void"
        ) from None


def refuse_other_result(state: State, digest: str | None) -> None:
    """Refuses a result that was computed again and is not the published one.

    Raises:
        InputError: it is another one.
    """
    if state.result != digest:
        raise InputError(
            f"round {state.manifest.name}: expected the published result {str(state.result)[:12]}, "
            f"got {str(digest)[:12]}",
            hint=f"{state.manifest.command('verify')} shows what differs",
            code="rounds.other_result",
        )


def _refuse_fewer(computed: Computed, least: int) -> None:
    report, count = computed.report, len(computed.report.counted)
    if count < least:
        why = f": refused {refusals_text(report.refused)}" if report.refused else ""
        raise InputError(
            f"min_contributors: expected at least {least} that count, got {count}{why}",
            hint="nothing was added to the log; without min_contributors the quorum counts",
            code="rounds.too_few",
        )


def _refuse_failed(computed: Computed, append: Appender) -> None:
    terms = append.state.manifest.evaluation
    gate = append.state.measured.results.get(computed.report.result.digest)
    reason = gate.refusal(terms.margin) if terms and gate else None
    if reason is not None:
        append(objects.VOID, reason=reason)
        raise GymError(f"round {append.state.manifest.name} is void: {reason}", code="rounds.void")


def _refuse_other_words(refused: Mapping[PublicKey, str], state: State) -> None:
    """Refuses a result whose report and log give different reasons: it could not be verified."""
    other = [key for key, reason in refused.items() if state.refused.get(key, reason) != reason]
    if other:
        raise InputError(
            f"round {state.manifest.name}: expected the refusals of the log, got another reason "
            f"for {min(other).fingerprint}: {refused[min(other)]}",
            code="rounds.other_refusals",
        )


def _store(computed: Computed, storage: Storage) -> None:
    contents = [computed.gram, computed.standings, computed.report.as_bytes()]
    store_all([computed.delta.path], contents, storage)


def refusals_of(refused: Mapping[PublicKey, str], state: State, key: OwnKey) -> list[Signed]:
    """Returns the signed refusals that are not in the log yet."""
    return [
        sign(key, objects.REFUSAL, objects.body_of(state.id, key=str(contributor), reason=reason))
        for contributor, reason in sorted(refused.items())
        if contributor not in state.refused
    ]


def result_entry(state: State, key: OwnKey, result: str, report: bytes) -> Signed:
    """Returns the signed entry of a result, given its digest and the bytes of its report."""
    from zoo.core import digest

    body = objects.body_of(state.id, digest=result, report=digest(report))
    return sign(key, objects.RESULT, body)
