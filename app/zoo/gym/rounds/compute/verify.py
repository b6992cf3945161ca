"""Verifies a round: computes everything again from the log and the chunks, and compares.

What is checked by opening a round (signatures, the order of entries, the head and the tree) comes
first; the rest is a list, so that one failed check does not hide the others. A file that the log
names and the storage lacks is a failed check. A storage that cannot be read says nothing of the
round: that is an error, never a failed check.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.gym.errors import InputError
from zoo.gym.rounds.compute.aggregate import compute
from zoo.gym.rounds.compute.checks import (
    Check,
    compared,
    made,
    published_report,
    refuse_unlogged,
)
from zoo.gym.rounds.compute.reasons import NOT_STORED, refused_by_word
from zoo.gym.rounds.compute.report import read_report, stored_file
from zoo.gym.rounds.kinds import kind_of
from zoo.gym.rounds.life.opening import Opened, known_keys
from zoo.gym.rounds.life.witnessing import read_kept_head, refuse_other_history
from zoo.gym.rounds.protocol.state import Phase, state_of
from zoo.gym.rounds.storage.chunks import fetch, read_chunk

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
        opened: the round, whose signatures, log and head were checked by opening it.
        folder: of the round on this machine.
        threads: number of threads; all if None.

    Raises:
        StorageError: the storage cannot be read, or a file not be written here; the checks before
            hold, those after it were not made.
    """
    yield Check("signatures", f"{len(opened.entries)} entries, each signed and in order")
    yield Check("log", f"root {opened.head.root.hex()}")
    yield _witnessed(opened)
    state = opened.state
    if by_word := len(refused_by_word(state)):  # which nobody can check afterwards
        said = f"{by_word} of {len(state.reveals)} refused by the maker's word alone: {NOT_STORED}"
        yield Check("missing files", said, ok=None)
    if state.phase is Phase.VOID:
        yield _void(opened, folder, threads)
    elif state.phase is not Phase.PUBLISHED:
        yield Check("result", f"the round is in phase {state.phase}", ok=None)
    else:
        yield from kind_of(state.manifest).checks(opened, folder, threads)


def _void(opened: Opened, folder: Path, threads: int | None) -> Check:
    """Tells why a round is void: what the log shows of it, or else its writer's word."""
    state, before = opened.state, state_of(opened.entries[:-1])
    by_word = f"there is no result, by the word of the log's writer alone: {state.reason}"
    said = before.too_few
    if before.misses_quorum and before.phase in before.extended and state.reason == said:
        return Check("void", f"there is no result: {said}, which was extended once")
    found = kind_of(state.manifest).void_check(opened, folder, threads)
    return Check("void", by_word, ok=None) if found is None else found


def failed_gate(opened: Opened, folder: Path, threads: int | None) -> Check | None:
    """Returns whether the result of a void round fails the gate; None if none was measured to.

    Args:
        opened: a round about weights.
        folder: of the round on this machine.
        threads: number of threads; all if None.
    """
    state = opened.state
    terms, measured = state.manifest.evaluation, state.measured.results
    if terms is None or all(one.refusal(terms.margin) is None for one in measured.values()):
        return None

    def failed() -> str:
        digest = compute(state, opened.storage, folder, threads=threads).report.result.digest
        said = measured[digest].refusal(terms.margin) if digest in measured else None
        if said is None:
            raise InputError(f"expected a result that fails the gate, got: {state.reason}")
        return f"there is no result: {said}"

    return made("void", failed)


def computed_again(opened: Opened, folder: Path, threads: int | None) -> Iterator[Check]:
    """Returns the checks of a published round about weights.

    Args:
        opened: the round.
        folder: of the round on this machine.
        threads: number of threads; all if None.
    """

    def read() -> Mapping[str, Any]:
        report = published_report(opened)
        for name in ("gram", "standings"):
            if report.get(name) is None:
                raise InputError(f"report.{name}: expected a digest, got nothing")
            read_chunk(opened.storage, str(report[name]))
        fetch(stored_file(report), opened.storage, folder / "published.safetensors")
        return report

    def repeat() -> tuple[Mapping[str, Any], str]:
        report = compute(opened.state, opened.storage, folder, threads=threads).report
        refuse_unlogged(report.refused, opened.state)
        return read_report(report.as_bytes()), f"{len(report.contributions)} contributions"

    return compared(opened, read, repeat, _SHOWN)


def _witnessed(opened: Opened) -> Check:
    """Tells what witnesses have signed; that the log continues it was checked by opening."""
    named = len(opened.manifest.keys_of("witness"))
    covered = max(opened.witnesses.values(), default=0)
    detail = f"{len(opened.witnesses)} of {named} signed, up to entry {covered}"
    return Check("witnesses", detail if named else "the round names none")


def kept_head_check(opened: Opened, path: Path) -> Check:
    """Checks whether the log continues a head that somebody kept.

    Raises:
        NotAvailableError: there is no file.
        InputError: it is no head of this round.
    """
    kept = read_kept_head(path, opened.state.id, known_keys(opened.state.id, opened.manifest))
    try:
        refuse_other_history(kept, opened.head, opened.log, "who kept the head")
    except InputError as error:
        return Check("kept head", error.message, ok=False)
    return Check("kept head", f"the log continues its {kept.size} entries")
