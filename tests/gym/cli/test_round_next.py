"""`zoo-gym round show`: the next command of each person, and what the terms guard against."""

import shutil
from pathlib import Path

import pytest

from tests.gym.cli.test_communities import Call, committed, person, rows_for, started
from tests.gym.cli.test_round_probes import LOSS, result_of
from zoo.gym.rounds.compute.aggregate import compute
from zoo.gym.rounds.measure.measure import Measuring
from zoo.gym.rounds.protocol.records import Gate, Value

__all__ = ["person"]  # a fixture


def next_of(person: Call, who: str, place: str = "round") -> str | None:
    lines = person(who, "round", "show", place).stdout.splitlines()
    return next((line.removeprefix("next: ") for line in lines if line[:5] == "next:"), None)


@pytest.mark.slow
def test_who_has_not_committed_contributes_next(person: Call) -> None:
    started(person)
    due = "zoo-gym round contribute last --round tiny --send"
    assert next_of(person, "ann") == due
    person("ann", "keys", "create")
    assert next_of(person, "ann") == due
    committed(person, "ann")
    assert next_of(person, "ann") is None
    person("maker", "round", "take")
    assert next_of(person, "maker") is None
    assert (next_of(person, "ann"), next_of(person, "ben")) == (None, due)


@pytest.mark.slow
def test_nobody_contributes_next_where_no_seat_is_left(person: Call) -> None:
    started(person, "--max-contributors", "2")
    for who in ("ann", "ben"):
        committed(person, who)
    person("maker", "round", "take")
    assert next_of(person, "eve") is None


def test_a_federated_average_wants_the_number_of_examples_next(person: Call) -> None:
    started(person, "--method", "federated_average")
    due = "zoo-gym round contribute last --round tiny --examples N --send"
    assert next_of(person, "ann") == due


@pytest.mark.slow
def test_a_private_round_is_trained_for_next(person: Call) -> None:
    words = ("--base", "base", "--out", "round", "--min-contributors", "2", "--tensors", "*")
    private = ("--private", "epsilon=1,delta=1e-2,clip=2", "--max-contributors", "50", "--force")
    person("maker", "round", "create", "quiet", *words, *private, "--rank", "1")
    sends = "zoo-gym round contribute last --round quiet --send"
    assert next_of(person, "ann") == f"zoo-gym train FILE round=quiet, then {sends}"
    assert "gate" not in person("ann", "round", "show", "round").stdout


def gated(person: Call, base: Path, gate: str, *files: str) -> None:
    """Runs a round whose gate is somebody until it is measured; one of three is a copy."""
    shutil.copytree("ann", "copy")
    rows_for(base, "rows.jsonl", 10)
    rows_for(base, "public.jsonl", 11)
    key = person(gate, "keys", "create", "--json").json["key"]
    started(person, *files, "--gate", str(key))
    people = ("ann", "ben", "copy")
    for verb in ("contribute", "reveal"):
        for who in people:
            given = (who, "--base", "base", "--round") if verb == "contribute" else ()
            assert person(who, "round", verb, *given, "round", "--send").code == 0
            person("maker", "round", "take", "round")
        person("maker", "round", "take", "round", "--close")


def signs(self: Measuring) -> None:
    """Signs a record of each contribution that is no copy, the result and the values."""
    found = dict(list(self.state.reveals.items())[:2])
    for key, reveal in found.items():
        self._sign(Gate(contributor=str(key), digest=reveal.digest, loss=LOSS, reason=None))
    digest = compute(self._work).report.result.digest
    self._sign(result_of(digest, None, None))
    for key in found:
        self._sign(Value(contributor=str(key), result=digest, value=0.1))


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["maker", "gus"])
def test_a_key_that_has_measured_all_but_copies_measures_no_more(
    gate: str, person: Call, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated(person, base, gate, "--evaluation", "rows.jsonl")
    due = "zoo-gym round measure --round tiny --evaluation FILE --send"
    assert next_of(person, gate) == due
    if gate != "maker":
        assert next_of(person, "maker") == f"a key of role gate measures: {due}"
    monkeypatch.setattr(Measuring, "run", signs)
    words = ("--round", "round", "--evaluation", "rows.jsonl", "--base", "base", "--send")
    assert person(gate, "round", "measure", *words).code == 0
    assert next_of(person, "maker") == "zoo-gym round aggregate tiny"
    assert gate == "maker" or next_of(person, gate) is None
    assert person("maker", "round", "aggregate", "round").code == 0


def test_show_has_what_is_measured_and_who_is_capped(person: Call, base: Path) -> None:
    rows_for(base, "rows.jsonl", 10)
    rows_for(base, "public.jsonl", 11)
    started(person, "--evaluation", "rows.jsonl", "--refit", "public.jsonl")
    shown = person("eve", "round", "show", "round").stdout
    said = "gate of 1 key: held-out rows (380 bytes), a re-fit; no cap on newcomers\n"
    assert said in shown, shown


@pytest.mark.slow
def test_a_round_without_a_gate_says_so(person: Call) -> None:
    started(person)
    assert "no gate; no cap on newcomers\n" in person("eve", "round", "show", "round").stdout


@pytest.mark.parametrize(
    ("method", "fewest", "enough"),
    [
        ("byzantine_robust", 3, 5),
        ("bulyan", 4, 7),
        ("byzantine_robust", 5, None),
        ("mean", 3, None),
    ],
)
def test_a_round_begins_with_a_note_if_its_rule_withstands_nobody(
    method: str, fewest: int, enough: int | None, person: Call
) -> None:
    words = ("--base", "base", "--out", "round", "--tensors", "*", "--method", method)
    found = person("maker", "round", "create", "x", *words, "--min-contributors", str(fewest))
    assert found.code == 0, found.stderr
    said = f"note: with {fewest} contributors, the fewest of this round, {method} withstands no "
    assert (said in found.stderr) == (enough is not None)
    assert enough is None or f"malicious one; with {enough} it withstands one\n" in found.stderr
