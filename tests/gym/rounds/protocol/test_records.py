"""What a key of role gate signs decides who counts, and nobody else's does."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.codes import raises
from tests.gym.rounds.protocol.people import (
    ALICE,
    BOB,
    CAROL,
    EVALUATION,
    GATE,
    LOG,
    MAKER,
    close,
    commit,
    digest_of,
    reveal,
    terms,
)
from zoo.gym.errors import InputError
from zoo.gym.rounds.protocol import objects
from zoo.gym.rounds.protocol.manifest import manifest_body, round_id
from zoo.gym.rounds.protocol.objects import MANIFEST, body_of, encode
from zoo.gym.rounds.protocol.state import Phase, State, state_of
from zoo.gym.signing import OwnKey, Signed, sign

RESULT = digest_of("result")
BETTER = {"rows": 100, "mean": -0.1, "deviation": 0.2}
UNSURE = {"rows": 100, "mean": -0.1, "deviation": 0.7}  # bound -.1 + 1.66 * .07 = +.016


class Round:
    """A round of three whose reveals are closed."""

    def __init__(self, **changes: Any) -> None:
        manifest = terms(**{"evaluation": EVALUATION, "refit": digest_of("public"), **changes})
        self.opening = sign(MAKER, MANIFEST, manifest_body(manifest))
        self.name = round_id(self.opening)
        people = ((ALICE, "alice"), (BOB, "bob"), (CAROL, "carol"))
        self.entries = [self.opening, *(commit(who, self.name, n) for who, n in people)]
        self.entries += [close(self.name, "commit")]
        self.entries += [reveal(who, self.name, n) for who, n in people]
        self.entries += [close(self.name, "reveal")]

    def after(self, *more: Signed) -> State:
        return state_of([encode(entry) for entry in (*self.entries, *more)])

    def record(self, kind: str, values: dict[str, Any], who: OwnKey = GATE) -> Signed:
        return sign(who, objects.RECORD, body_of(self.name, kind=kind, values=values))

    def gate(self, who: OwnKey, name: str, loss: Any = None, reason: Any = None) -> Signed:
        fields = {"contributor": str(who.public), "digest": digest_of(name)}
        return self.record("gate", {**fields, "loss": loss, "reason": reason})

    def value(self, who: OwnKey, value: float) -> Signed:
        fields = {"contributor": str(who.public), "result": RESULT, "value": value}
        return self.record("value", fields)

    def passed(self, **changes: Any) -> Signed:
        fields = {"previous": None, "refusals": None, "triggers": None}
        return self.record("result", {"digest": RESULT, "base": BETTER, **fields, **changes})

    def measured(self) -> list[Signed]:
        """All that a result needs; Carol fails the gate."""
        return [
            self.gate(ALICE, "alice", BETTER),
            self.gate(BOB, "bob", BETTER),
            self.gate(CAROL, "carol", UNSURE),
            self.record("refit", {"losses": [5.0, 4.0, 3.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
            self.passed(),
            self.value(ALICE, 0.5),
            self.value(BOB, -0.25),
        ]

    def result(self) -> Signed:
        body = body_of(self.name, digest=RESULT, report=digest_of("report"))
        return sign(LOG, objects.RESULT, body)


def test_a_contribution_that_may_harm_is_refused_with_the_reason() -> None:
    found = Round()
    state = found.after(found.gate(ALICE, "alice", BETTER), found.gate(CAROL, "carol", UNSURE))

    assert CAROL.public not in state.accepted
    assert ALICE.public in state.accepted
    said = state.refused[CAROL.public]
    assert said.startswith("held-out loss: expected a one-sided 95 % bound of at most +0.0000")
    assert said.endswith("got +0.0162 (mean -0.1000, 100 rows)")


def test_a_margin_lets_a_small_harm_pass() -> None:
    found = Round(evaluation={**EVALUATION, "margin": 0.02})
    assert CAROL.public in found.after(found.gate(CAROL, "carol", UNSURE)).accepted


def test_a_reason_of_the_validator_refuses_whatever_the_loss() -> None:
    found = Round(evaluation={**EVALUATION, "validator": "checks:ours"})
    state = found.after(found.gate(ALICE, "alice", BETTER, "the round's own validator: no"))
    assert state.refused[ALICE.public] == "the round's own validator: no"


@pytest.mark.parametrize("reason", ["too bad\nphase: published", "", "a\u202eb"])
def test_a_reason_of_other_than_one_printable_line_is_no_record(reason: str) -> None:
    found = Round()
    with raises("rounds.bad_record", "expected a reason in one line, got"):
        found.after(found.gate(ALICE, "alice", BETTER, reason))


def test_the_factor_is_the_one_with_the_lowest_loss() -> None:
    found = Round()
    state = found.after(*found.measured())
    assert state.measured.refit
    assert state.measured.refit.factor == 2.0  # the fourth of .5, 1, 1.5, 2, 3, 4, 6, 8


def test_a_result_follows_only_when_all_is_measured() -> None:
    found = Round()
    records = found.measured()
    assert found.after(*records, found.result()).phase is Phase.PUBLISHED
    for left_out in range(len(records)):
        with pytest.raises(InputError, match="result: expected"):
            found.after(*records[:left_out], *records[left_out + 1 :], found.result())


def test_a_result_that_fails_the_gate_cannot_follow() -> None:
    found = Round(previous=digest_of("last"))
    records = [one for one in found.measured() if one.body["kind"] != "result"]
    said = "passes the gate: the result's held-out loss: .* against the last result"
    with raises("rounds.failed_gate", said):
        found.after(*records, found.passed(previous=UNSURE), found.result())
    assert found.after(*records, found.passed(previous=BETTER), found.result()).result == RESULT


@pytest.mark.parametrize("name", ["refusals", "triggers"])
def test_a_result_must_not_lose_refusals_or_follow_triggers(name: str) -> None:
    found = Round(evaluation={**EVALUATION, name: digest_of("probes")})
    records = [one for one in found.measured() if one.body["kind"] != "result"]
    good = {"prompts": 100, "base": 10, "result": 10}
    bad = {**good, "result": 5 if name == "refusals" else 16}
    assert found.after(*records, found.passed(**{name: good}), found.result()).result == RESULT
    with raises("rounds.failed_gate") as caught:
        found.after(*records, found.passed(**{name: bad}), found.result())
    assert caught.value.code == "rounds.failed_gate"


SHOWN = {
    "purpose": "evaluation",
    "sha256": EVALUATION["digest"],
    "suffix": ".jsonl",
    "digest": digest_of("file"),
    "bytes": EVALUATION["bytes"],
    "chunks": digest_of("list"),
}


def test_the_held_out_examples_of_the_manifest_are_shown() -> None:
    found = Round()
    assert found.after(found.record("shown", SHOWN)).measured.shown["evaluation"].bytes == 1000


REFUSED: dict[str, tuple[dict[str, Any], Callable[[Round], Signed], str]] = {
    "of another key": ({}, lambda r: r.record("gate", {}, who=ALICE), "a key of role gate"),
    "of the log's key": ({}, lambda r: r.record("gate", {}, who=LOG), "a key of role gate"),
    "unknown kind": ({}, lambda r: r.record("mood", {}), "record.kind: expected one of shown"),
    "strange contributor": ({}, lambda r: r.gate(MAKER, "alice", BETTER), "contributor who rev"),
    "another file": ({}, lambda r: r.gate(ALICE, "bob", BETTER), "the revealed file"),
    "few rows": ({}, lambda r: r.gate(ALICE, "alice", {**BETTER, "rows": 9}), "loss.rows"),
    "no measured figure": ({}, lambda r: r.gate(ALICE, "alice", {"rows": 10}), "loss.mean"),
    "neither loss nor reason": ({}, lambda r: r.gate(ALICE, "alice"), "a loss, or why there is no"),
    "a reason beside a loss": (
        {},
        lambda r: r.gate(ALICE, "alice", BETTER, "too old"),
        "expected a loss or a reason, got both",
    ),
    "a validator that nobody named": (
        {},
        lambda r: r.gate(ALICE, "alice", BETTER, "the round's own validator: no"),
        "expected no validator's reason, got one",
    ),
    "a validator before a loss": (
        {"evaluation": {**EVALUATION, "validator": "checks:ours"}},
        lambda r: r.gate(ALICE, "alice", None, "the round's own validator: no"),
        "a loss, or why there is none",
    ),
    "seven losses": ({}, lambda r: r.record("refit", {"losses": [1.0] * 7}), "refit.losses"),
    "no gate promised": (
        {"evaluation": None},
        lambda r: r.gate(ALICE, "alice", BETTER),
        "a round with an evaluation set",
    ),
    "no re-fit promised": (
        {"refit": None},
        lambda r: r.record("refit", {"losses": [1.0] * 8}),
        "a round with a re-fit",
    ),
    "a last result that nobody named": ({}, lambda r: r.passed(previous=BETTER), "none of prev"),
    "more refusals than prompts": (
        {"evaluation": {**EVALUATION, "refusals": digest_of("probes")}},
        lambda r: r.passed(refusals={"prompts": 4, "base": 5, "result": 4}),
        "record result.refusals: expected counts of at most 4 prompts, got 5",
    ),
    "more answers than prompts": (
        {"evaluation": {**EVALUATION, "triggers": digest_of("probes")}},
        lambda r: r.passed(triggers={"prompts": 4, "base": 0, "result": 5}),
        "record result.triggers: expected counts of at most 4 prompts, got 5",
    ),
    "another size of the evaluation set": (
        {},
        lambda r: r.record("shown", {**SHOWN, "bytes": 10}),
        "expected a file of 1000 bytes, got 10",
    ),
    "another evaluation set": (
        {},
        lambda r: r.record("shown", {**SHOWN, "sha256": digest_of("other rows")}),
        "the evaluation file of the manifest",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_record_that_may_not_follow_is_refused(case: str) -> None:
    changes, made, said = REFUSED[case]
    found = Round(**changes)
    with pytest.raises(InputError, match=said):
        found.after(made(found))


def test_nothing_is_measured_twice() -> None:
    found = Round()
    for record in found.measured():
        with raises("rounds.record_refused", "a second one"):
            found.after(record, record)
