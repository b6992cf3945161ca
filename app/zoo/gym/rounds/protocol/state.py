"""The state of a round: what the entries of its log add up to.

`State.after` decides for each entry whether it may follow; the writer of the log asks it before it
appends, and a reader repeats every decision. Time appears in no entry: a deadline is the entry with
which the log's writer closes a phase.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias, cast

from zoo.gym.errors import InputError, NotAvailableError, within
from zoo.gym.rounds.kind import kind_of
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import Manifest, Role, read_manifest, round_id
from zoo.gym.rounds.protocol.objects import Reveal, is_hex, is_text, nonce_commitment
from zoo.gym.rounds.protocol.records import Gate, Measured, record_of
from zoo.gym.signing import PublicKey, Signed, parse_key

Body: TypeAlias = Mapping[str, object]
"""The checked fields of an entry."""


class Phase(StrEnum):
    """What a round waits for."""

    COMMIT = "commit"
    REVEAL = "reveal"
    COMPUTE = "compute"
    PUBLISHED = "published"
    VOID = "void"


@dataclass(frozen=True)
class State:
    """A round after some of its entries.

    Attributes:
        commits: the commitments, in the order of the log.
        refused: the reason for each refused contributor.
        nonce: the maker's, of the lot among newcomers.
        result: the digest of the result's file.
        extended: the phases that were extended.
        reason: why it is void.
    """

    id: str
    manifest: Manifest
    phase: Phase = Phase.COMMIT
    commits: Mapping[PublicKey, str] = field(default_factory=dict)
    reveals: Mapping[PublicKey, Reveal] = field(default_factory=dict)
    refused: Mapping[PublicKey, str] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)
    nonce: str | None = None
    result: str | None = None
    extended: frozenset[Phase] = frozenset()
    reason: str | None = None

    def after(self, entry: Signed) -> "State":
        """Returns the state after one more entry.

        Raises:
            InputError: it may not follow.
        """
        rule = _FOLLOW.get(entry.context)
        if rule is None:
            raise InputError(
                f"entry: expected none of kind '{entry.context}' here", code="rounds.entry_kind"
            )
        if entry.body.get("round") != self.id:
            raise InputError(
                f"{entry.context}: expected one of round {self.id[:12]}, got one of "
                f"{entry.body.get('round')!r:.14}",
                code="rounds.other_round",
            )
        if rule.role and entry.key not in self.manifest.keys_of(rule.role):
            raise InputError(
                f"{entry.context}: expected a signature of a key of role {rule.role}, got one of "
                f"{entry.key.fingerprint}",
                code="rounds.other_role",
            )
        body = objects.checked(entry, {"round": is_hex, **rule.fields})
        _expect(self, entry, *rule.phases)
        return rule.follow(self, entry, body)

    @property
    def misses_quorum(self) -> bool:
        """Whether the phase, if it is closed now, has fewer contributors than the quorum."""
        return (
            self.phase in {Phase.COMMIT, Phase.REVEAL} and self._contributors < self.manifest.quorum
        )

    @property
    def too_few(self) -> str:
        """How many contributors a phase of commitments or reveals has, of those it needs."""
        return f"{self._contributors} of {self.manifest.quorum} contributors in phase {self.phase}"

    @property
    def _contributors(self) -> int:
        return len(self.commits if self.phase is Phase.COMMIT else self.reveals)

    def expect_compute(self, *more: Phase) -> None:
        """Refuses to compute a result in another phase.

        Raises:
            NotAvailableError: the phase is neither compute nor one of `more`.
        """
        if self.phase in {Phase.COMPUTE, *more}:
            return
        to_close = self.phase in {Phase.COMMIT, Phase.REVEAL}
        close = self.manifest.command("sync", "--close")
        raise NotAvailableError(
            f"round {self.manifest.name}: expected phase compute, got {self.phase}",
            hint=f"close the phase first: {close}" if to_close else None,
            code="rounds.other_phase",
        )

    @property
    def accepted(self) -> tuple[PublicKey, ...]:
        """The contributors that count, by key."""
        return tuple(sorted(self.reveals.keys() - self.refused.keys()))

    @property
    def gate_refusals(self) -> dict[PublicKey, str]:
        """Why contributions failed the gate."""
        terms = self.manifest.evaluation
        margin = terms.margin if terms else 0.0
        reasons = {key: gate.refusal(margin) for key, gate in self.measured.gates.items()}
        return {key: reason for key, reason in reasons.items() if reason is not None}

    @property
    def deadline(self) -> str | None:
        """When the log's writer closes the phase, in UTC; None if there is nothing to close."""
        deadline = self.manifest.deadlines.model_dump().get(self.phase.value)
        if deadline is None or not self.extended:
            return deadline
        # commitments that were extended leave the time for reveals as long as it was
        later = timedelta(seconds=self.manifest.deadlines.extension_s * len(self.extended))
        then = datetime.fromisoformat(deadline) + later
        return then.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def closed(self) -> bool:
        """Whether nothing can follow."""
        return self.phase in {Phase.PUBLISHED, Phase.VOID}


def state_of(entries: Sequence[bytes]) -> State:
    """Returns the state after all entries of a log; each signature is checked.

    Raises:
        InputError: an entry is none, or may not follow; identified by its number.
    """
    if not entries:
        raise InputError(
            "log: expected a manifest as entry 0, got nothing", code="rounds.empty_log"
        )
    state: State | None = None
    for number, entry in enumerate(entries):
        with within(f"log entry {number}"):
            signed = objects.decode(entry)
            if state is None:
                state = State(round_id(signed), read_manifest(signed))
            else:
                state = state.after(signed)
    assert state is not None
    return state


def _commit(state: State, entry: Signed, body: Body) -> State:
    if entry.key in state.commits:
        raise InputError(
            f"commit: key {entry.key.fingerprint} has committed already",
            code="rounds.committed_already",
        )
    # no entry has the standings: the log's writer counts newcomers and others apart
    most = state.manifest.most * (1 if state.manifest.newcomers is None else 2)
    if len(state.commits) >= most:
        raise InputError(
            f"commit: the round takes {most} contributors at most", code="rounds.round_full"
        )
    return replace(state, commits={**state.commits, entry.key: str(body["commitment"])})


def _reveal(state: State, entry: Signed, _: Body) -> State:
    reveal = objects.reveal_of(entry)
    committed = state.commits.get(entry.key)
    if committed is None:
        raise InputError(
            f"reveal: key {entry.key.fingerprint} has not committed", code="rounds.not_committed"
        )
    if entry.key in state.reveals:
        raise InputError(
            f"reveal: key {entry.key.fingerprint} has revealed already",
            code="rounds.revealed_already",
        )
    if objects.commitment(reveal.digest, reveal.nonce, entry.key) != committed:
        raise InputError(
            "reveal: expected the file of the commitment, got another", code="rounds.other_file"
        )
    if reveal.bytes > state.manifest.caps.file_bytes:
        raise InputError(
            f"reveal: expected a file of at most {state.manifest.caps.file_bytes} bytes, got "
            f"{reveal.bytes}",
            code="rounds.file_too_large",
        )
    return replace(state, reveals={**state.reveals, entry.key: reveal})


def _close(state: State, entry: Signed, body: Body) -> State:
    """Closes a phase: the next begins, or, with too few for it, this one goes on once."""
    phase = Phase(str(body["phase"]))
    _expect(state, entry, phase)
    missed = state.misses_quorum
    if body["missed"] is not missed:
        raise InputError(
            f"close: {state.too_few} say the opposite of 'missed'", code="rounds.wrong_count"
        )
    if not missed:
        next_phase = Phase.REVEAL if phase is Phase.COMMIT else Phase.COMPUTE
        return replace(state, phase=next_phase)
    if phase in state.extended:
        raise InputError(
            f"close: phase {phase} was extended once already: the round is void",
            code="rounds.extended_already",
        )
    return replace(state, extended=state.extended | {phase})


def _lot(state: State, _: Signed, body: Body) -> State:
    """Shows the maker's nonce, once nobody can commit any more."""
    newcomers = state.manifest.newcomers
    if newcomers is None or state.nonce is not None:
        raise InputError(
            "lot: expected one in a round with a cap on newcomers", code="rounds.lot_unexpected"
        )
    if nonce_commitment(str(body["nonce"])) != newcomers.nonce:
        raise InputError(
            "lot: expected the nonce of the manifest, got another", code="rounds.other_nonce"
        )
    return replace(state, nonce=str(body["nonce"]))


def _refusal(state: State, _: Signed, body: Body) -> State:
    key = parse_key(body["key"])
    if key not in state.reveals or key in state.refused:
        raise InputError(
            "refusal: expected a contributor who revealed and was not refused",
            code="rounds.refusal_unexpected",
        )
    return replace(state, refused={**state.refused, key: str(body["reason"])})


def _record(state: State, entry: Signed, body: Body) -> State:
    """Takes a measurement; a contribution that fails the gate is refused by it."""
    record = record_of(str(body["kind"]), cast("Mapping[str, object]", body["values"]))
    measured = state.measured.after(record, state.manifest, state.reveals, entry.key)
    updated = replace(state, measured=measured)
    if isinstance(record, Gate) and (terms := state.manifest.evaluation) is not None:
        reason = record.refusal(terms.margin)
        if reason is not None:
            refused = {**updated.refused, parse_key(record.contributor): reason}
            updated = replace(updated, refused=refused)
    return updated


def _result(state: State, _: Signed, body: Body) -> State:
    if len(state.accepted) < state.manifest.quorum:
        raise InputError(
            f"result: expected {state.manifest.quorum} contributions, got {len(state.accepted)}",
            code="rounds.too_few",
        )
    if state.manifest.newcomers and state.nonce is None:
        raise InputError(
            "result: expected the nonce of the lot before it, got none", code="rounds.nonce_missing"
        )
    _check_measured(state, str(body["digest"]))
    return replace(state, phase=Phase.PUBLISHED, result=str(body["digest"]))


def _check_measured(state: State, result: str) -> None:
    """Refuses a result before everything is measured that the manifest promises."""
    measured, manifest = state.measured, state.manifest
    needed = manifest.command("measure", kind_of(manifest).measure_options(manifest, measured))
    hint = f"a key of role gate makes them: {needed}"
    if manifest.refit and measured.refit is None:
        raise InputError(
            "result: expected a re-fit of its size, got none",
            hint=hint,
            code="rounds.rescale_missing",
        )
    terms, gate, accepted = manifest.evaluation, measured.results.get(result), state.accepted
    missing = [key for key in accepted if key not in measured.gates]
    fault = ""
    if manifest.lessons and len(measured.lessons) < manifest.lessons.least:
        fault = f"measurements by {manifest.lessons.least} keys, got {len(measured.lessons)}"
    elif terms is None:
        return
    elif missing:
        fault = f"measurements of {len(accepted)} contributions, got none of {len(missing)}"
    elif gate is None:
        fault = "a measurement of it, got none"
    elif (reason := gate.refusal(terms.margin)) is not None:
        raise InputError(
            f"result: expected one that passes the gate: {reason}", code="rounds.failed_gate"
        )
    elif manifest.pool and set(accepted) - measured.values.get(result, {}).keys():
        fault = "the value of each contribution, got too few"
    if fault:
        raise InputError(f"result: expected {fault}", hint=hint, code="rounds.measurements_missing")


def _void(state: State, _: Signed, body: Body) -> State:
    if state.closed:
        raise InputError(f"void: the round is {state.phase} already", code="rounds.ended_already")
    return replace(state, phase=Phase.VOID, reason=str(body["reason"]))


def _is_key(value: object) -> bool:
    with suppress(InputError):
        parse_key(value)
        return True
    return False


class _Rule(NamedTuple):
    """Which entries may follow: whose, with what besides the round, and in which phases."""

    role: Role | None
    fields: Mapping[str, Callable[[object], bool]]
    phases: Sequence[Phase]
    follow: Callable[[State, Signed, Body], State]


_CLOSING: dict[str, Callable[[object], bool]] = {
    "phase": lambda value: value in ("commit", "reveal"),
    "missed": lambda value: type(value) is bool,
}
_RECORD: dict[str, Callable[[object], bool]] = {
    "kind": is_text,
    "values": lambda value: isinstance(value, dict),
}
_LATE = (Phase.REVEAL, Phase.COMPUTE)
_FOLLOW = {
    objects.COMMIT: _Rule(None, {"commitment": is_hex}, (Phase.COMMIT,), _commit),
    objects.CLOSE: _Rule("log", _CLOSING, tuple(Phase), _close),
    objects.LOT: _Rule("log", {"nonce": is_hex}, _LATE, _lot),
    objects.REVEAL: _Rule(None, objects.REVEALED, (Phase.REVEAL,), _reveal),
    objects.REFUSAL: _Rule("log", {"key": _is_key, "reason": is_text}, _LATE, _refusal),
    objects.RECORD: _Rule("gate", _RECORD, (Phase.COMPUTE,), _record),
    objects.RESULT: _Rule("log", {"digest": is_hex, "report": is_hex}, (Phase.COMPUTE,), _result),
    objects.VOID: _Rule("log", {"reason": is_text}, tuple(Phase), _void),
}


def _expect(state: State, entry: Signed, *phases: Phase) -> None:
    if state.phase not in phases:
        expected = " or ".join(phases)
        raise InputError(
            f"{entry.context}: expected in phase {expected}, got it in {state.phase}",
            code="rounds.wrong_phase",
        )
