"""Verifies a round: computes everything again from the log and the chunks, and compares.

What is checked by opening a round (signatures, the order of entries, the head and the tree) comes
first; the rest is a list, so that one failed check does not hide the others. A file that the log
names and the storage lacks is a failed check. A storage that cannot be read says nothing of the
round: that is an error, never a failed check.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.files import read_errors, read_small
from zoo.gym.rounds.compute.aggregate import compute
from zoo.gym.rounds.compute.collect import NOT_STORED, Work, refusals_text, refused_by_word
from zoo.gym.rounds.compute.result import read_report, stored_file
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.log.reader import read_note
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.state import Phase, State, state_of
from zoo.gym.rounds.session.opening import Opened, known_keys, refuse_other_history, verifiers
from zoo.gym.rounds.storage.base import NOTE_BYTES
from zoo.gym.rounds.storage.chunks import fetch, read_chunk
from zoo.gym.signing import PublicKey, canonical


@dataclass(frozen=True)
class Check:
    """One check of a round.

    Attributes:
        detail: what was found.
        ok: whether it holds; None if it could not be made.
    """

    name: str
    detail: str
    ok: bool | None = True


def made(name: str, act: Callable[[], str]) -> Check:
    """Returns the check that an act makes.

    It fails where something is missing or other than expected; an error of the storage or of this
    machine is raised.
    """
    try:
        return Check(name, act())
    except (InputError, NotAvailableError) as error:
        return Check(name, error.message, ok=False)


def published_report(opened: Opened) -> Mapping[str, Any]:
    """Returns the report of a published result.

    Raises:
        NotAvailableError: it is missing.
        InputError: it is not the one of the result.
    """
    signed = next(
        entry
        for entry in (objects.decode(content) for content in reversed(opened.entries))
        if entry.context == objects.RESULT
    )
    report = read_report(read_chunk(opened.storage, str(signed.body["report"])))
    result = stored_file(report)
    if result.digest != signed.body["digest"] or report.get("round") != opened.state.id:
        raise InputError(
            "report: expected the one of this result, got another", code="rounds.other_report"
        )
    return report


def refuse_unlogged(refused: Mapping[PublicKey, str], state: State) -> None:
    """Refuses refusals that are not in the log: the files have changed since.

    Raises:
        InputError: the first of them are named, with the reason.
    """
    unlogged = {key: why for key, why in refused.items() if key not in state.refused}
    if unlogged:
        refusals = refusals_text(unlogged)
        raise InputError(
            f"expected no refusals but those in the log, got {refusals}",
            code="rounds.other_refusals",
        )


def compared(
    opened: Opened,
    read: Callable[[dict[str, Any]], None],
    repeat: Callable[[dict[str, Any]], str],
    titles: Mapping[str, str],
) -> Iterator[Check]:
    """Yields the checks of a round that is computed again.

    Args:
        read: puts the published report into a dictionary, then fetches its files: one that is
            missing leaves the report to be compared.
        repeat: puts the report that it computes into one, nothing without a result, then checks
            the rest and returns in words what it was computed of.
        titles: the title of the check of each field, see `compared_fields`.
    """
    stored: dict[str, Any] = {}
    ours: dict[str, Any] = {}

    def fetched() -> str:
        read(stored)
        return f"{stored['result']['bytes']} bytes"

    yield made("published files", fetched)
    computed = made("contributions", lambda: repeat(ours))
    yield computed
    if stored and computed.ok and not ours:
        yield Check("kept lessons", "expected none, got a result", ok=False)
    if not (stored and ours):
        return
    yield from compared_fields(ours, stored, titles)
    logged = {str(key): reason for key, reason in opened.state.refused.items()}
    reported = {entry["key"]: entry["reason"] for entry in ours["refused"]}
    yield Check("refusals in the log", f"{len(logged)} refused", ok=logged == reported)


def compared_fields(
    ours: Mapping[str, Any], stored: Mapping[str, Any], titles: Mapping[str, str]
) -> list[Check]:
    """Returns a check for each field of a report, and one that it has no other fields.

    Args:
        stored: the published report; its format and round have been checked.
    """
    assert ours.keys() == {*titles, "format", "round"}, "every field is compared"
    checks = [
        Check(title, short(ours[field], stored.get(field)), ok=same_field(ours, stored, field))
        for field, title in titles.items()
    ]
    more, less = sorted(stored.keys() - ours.keys()), sorted(ours.keys() - stored.keys())
    detail = f"{len(ours)} of them"
    if more or less:
        detail = f"expected {detail}, got {_listed(more)} as well and {_listed(less)} missing"
    return [*checks, Check("fields of the report", detail, ok=not more and not less)]


def same_field(ours: Mapping[str, Any], stored: Mapping[str, Any], field: str) -> bool:
    """Returns whether both have the same JSON in a field: to Python, true, 1 and 1.0 are equal."""
    if field not in ours or field not in stored:
        return False
    return canonical(ours[field]) == canonical(stored[field])


def _listed(names: list[str]) -> str:
    return ", ".join(ascii(name)[:40] for name in names[:3]) or "none"


def short(ours: object, stored: object) -> str:
    """Returns the computed value, and the published one if it differs."""
    if ours == stored:
        return _in_words(ours)[:200]
    return f"expected {str(ours)[:150]}, got {str(stored)[:150]}"


def _in_words(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"{len(value)} of them"
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        parts = (
            f"{key} of {len(part)}" if isinstance(part, dict) else f"{key} {part}"
            for key, part in named.items()
        )
        return ", ".join(parts)
    return str(value)


_SHOWN = {
    "rule": "rule",
    "contributions": "order of contributions",
    "refused": "refusals",
    "weights": "weights",
    "rest": "weight of no change",
    "refit": "re-fit",
    "rewards": "rewards",
    "newcomers": "newcomers",
    "standings": "standings",
    "gram": "Gram matrix",
    "result": "result",
}


def verify(opened: Opened, folder: Path, *, threads: int | None = None) -> Iterator[Check]:
    """Yields the checks of a round, as they are made.

    Args:
        opened: the round; opening it has checked its signatures, log and head.

    Raises:
        StorageError: the storage cannot be read, or a file not be written here; the checks before
            hold, those after it were not made.
    """
    yield Check("signatures", f"{len(opened.entries)} entries, each signed and in order")
    yield Check("log", f"root {opened.head.root.hex()}")
    # what witnesses have signed: opening has checked that the log continues it
    named, covered = opened.manifest.keys_of("witness"), max(opened.witnesses.values(), default=0)
    detail = f"{len(opened.witnesses)} of {len(named)} signed, up to entry {covered}"
    yield Check("witnesses", detail if named else "the round names none")
    state = opened.state
    if by_word := len(refused_by_word(state)):  # which nobody can check afterwards
        detail = (
            f"{by_word} of {len(state.reveals)} refused by the maker's word alone: {NOT_STORED}"
        )
        yield Check("missing files", detail, ok=None)
    if state.phase is Phase.VOID:
        yield _void(opened, folder, threads)
    elif state.phase is not Phase.PUBLISHED:
        yield Check("result", f"the round is in phase {state.phase}", ok=None)
    else:
        yield from kind_of(state.manifest).checks(opened, folder, threads)


def _void(opened: Opened, folder: Path, threads: int | None) -> Check:
    """Checks the reason of a void round: by the log, or else by its writer's word alone."""
    state, last = opened.state, state_of(opened.entries[:-1])
    by_word = f"there is no result, by the word of the log's writer alone: {state.reason}"
    reason = last.too_few
    if last.misses_quorum and last.phase in last.extended and state.reason == reason:
        return Check("void", f"there is no result: {reason}, which was extended once")
    check = kind_of(state.manifest).void_check(opened, folder, threads)
    return Check("void", by_word, ok=None) if check is None else check


def failed_gate(opened: Opened, folder: Path, threads: int | None) -> Check | None:
    """Returns whether the result of a void round fails the gate; None if none was measured to."""
    state = opened.state
    terms, measured = state.manifest.evaluation, state.measured.results
    if terms is None or all(gate.refusal(terms.margin) is None for gate in measured.values()):
        return None

    def failed() -> str:
        digest = compute(Work(state, opened.storage, folder, threads)).report.result.digest
        reason = measured[digest].refusal(terms.margin) if digest in measured else None
        if reason is None:
            raise InputError(
                f"expected a result that fails the gate, got: {state.reason}",
                code="rounds.gate_passed",
            )
        return f"there is no result: {reason}"

    return made("void", failed)


def computed_again(opened: Opened, folder: Path, threads: int | None) -> Iterator[Check]:
    """Returns the checks of a published round about weights."""

    def read(stored: dict[str, Any]) -> None:
        report = published_report(opened)
        for name in ("gram", "standings"):
            if report.get(name) is None:
                raise InputError(
                    f"report.{name}: expected a digest, got nothing", code="rounds.report_damaged"
                )
        stored.update(report)
        for name in ("gram", "standings"):
            read_chunk(opened.storage, str(report[name]))
        fetch(stored_file(report), opened.storage, folder / "published.safetensors")

    def repeat(ours: dict[str, Any]) -> str:
        report = compute(Work(opened.state, opened.storage, folder, threads)).report
        ours.update(read_report(report.as_bytes()))
        refuse_unlogged(report.refused, opened.state)
        return f"{len(report.contributions)} contributions"

    return compared(opened, read, repeat, _SHOWN)


def kept_head_check(opened: Opened, path: Path) -> Check:
    """Checks whether the log continues a head that somebody kept, as `round anchor` hands it out.

    Raises:
        NotAvailableError: there is no file.
        InputError: it is no head of this round, or nobody of its keys signed it.
    """
    with read_errors(path):
        try:
            content = read_small(path, most_bytes=NOTE_BYTES)
        except FileNotFoundError:
            raise NotAvailableError(
                f"{path}: expected a signed head, got nothing", code="rounds.no_head"
            ) from None
    keys = verifiers(known_keys(opened.state.id, opened.manifest))
    head, signatures = read_note(content, opened.head.origin, keys)
    if not signatures:
        raise InputError(
            f"{path}: expected a signature of the round's keys, got none",
            code="rounds.unsigned_head",
        )
    try:
        refuse_other_history(head, opened.head, opened.log, "who kept the head")
    except InputError as error:
        return Check("kept head", error.message, ok=False)
    return Check("kept head", f"the log continues its {head.size} entries")
